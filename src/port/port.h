#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "adapter/queues/async_event.h"
#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "link/link.h"
#include "port/route.h"

namespace verbatim::adapter {

struct GidEntry {
  Gid gid;
  SocketAddress address;  // `port` is 4791 (RoCE v2) or 0 (v1).
};

inline constexpr std::size_t kGidsMax = 32;  // The number of bits in PortState.

/// State of the network interface of the port, as the agent reports it.
struct PortState {
  std::uint32_t gids = ~0u;  // Bit i: entry i of the GID table is valid.
  bool is_present = true;    // False: the interface was removed, and with it the adapter.
  bool is_active = true;
  Mtu active_mtu = Mtu::k4096;  // Changes without an event, as in kernel drivers.

  bool has_gid(std::size_t index) const { return (gids >> index & 1) != 0; }
  friend bool operator==(const PortState&, const PortState&) = default;
};

/// The port: its links by GID, its state, and the listeners for its events: one queue for each open
/// context. Thread-safe.
class Port {
 public:
  /// Adds the next entry of the GID table, which must have room. GIDs of one address share its
  /// link, which exists as long as the port. One thread at a time.
  void add_gid(const GidEntry& entry, std::unique_ptr<link::Link> link);
  /// Returns null if no GID has this address yet.
  link::Stack* links_of(const SocketAddress& address) const;
  void add_gid(const GidEntry& entry, link::Stack& links);
  std::span<const GidEntry> gids() const { return gids_.elements(); }
  /// Requires an existing GID. Decorators of its link (`set_top`, link/link.h) carry everything
  /// that queue pairs send with this GID.
  link::Stack& links(std::size_t gid_index) const { return *links_[gid_index]; }
  /// Returns the route for packets of this GID to that queue pair; `patience`: as for
  /// `link::Link::next_hop`.
  Result<port::Route> route(std::size_t gid_index, const Path& path, Qpn destination,
                            std::optional<TimeNs> patience = {}) const;

  PortState state() const { return state_.load(std::memory_order_relaxed); }
  /// Stores the new state before it raises events.
  void change(PortState next);

  void add_listener(AsyncEvents& events);
  /// No event is pushed to the queue afterwards.
  void remove_listener(AsyncEvents& events);

 private:
  AppendOnlyList<GidEntry, kGidsMax> gids_;
  std::array<link::Stack*, kGidsMax> links_{};  // By GID index.
  std::vector<std::unique_ptr<link::Stack>> stacks_;

  static_assert(std::atomic<PortState>::is_always_lock_free);
  // Written under lock_; readers need no other data with it.
  std::atomic<PortState> state_{PortState{}};
  std::mutex lock_;
  std::unordered_set<AsyncEvents*> listeners_;
};

/// Returns the events of `ibv_get_async_event` for a change, in order.
std::vector<AsyncEventType> events_between(const PortState& before, const PortState& now);

}  // namespace verbatim::adapter
