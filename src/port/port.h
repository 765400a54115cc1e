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
#include "arena/node.h"
#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "link/link.h"
#include "port/route.h"

namespace verbatim::adapter {

using arena::GidEntry;

inline constexpr std::size_t kGidsMax = 32;  // As many as PortState has bits.

/// What the agent tells of the network behind the port.
struct PortState {
  std::uint32_t gids = ~0u;  // Bit i: entry i of the GID table is valid.
  bool is_present = true;    // False: the interface is gone, and the adapter with it.
  bool is_active = true;
  Mtu active_mtu = Mtu::k4096;  // Changes without an event, as a kernel driver has it.

  bool has_gid(std::size_t index) const { return (gids >> index & 1) != 0; }
  friend bool operator==(const PortState&, const PortState&) = default;
};

/// The port: its links, by GID; its state, and who wants to hear of its events: one queue for each
/// opened context. Thread-safe.
class Port {
 public:
  /// The next entry of the GID table, which has room: GIDs of one address share its link, which is
  /// there as long as the port. One thread at a time.
  void add_gid(const GidEntry& entry, std::unique_ptr<link::Link> link);
  /// Where no GID has this address yet, null.
  link::Stack* links_of(const SocketAddress& address) const;
  void add_gid(const GidEntry& entry, link::Stack& links);
  std::span<const GidEntry> gids() const { return gids_.elements(); }
  /// Of a GID that is there. What is put around its link (`set_top`, link/link.h) carries what all
  /// queue pairs send that name it.
  link::Stack& links(std::size_t gid_index) const { return *links_[gid_index]; }
  /// How packets of this GID get to that queue pair; `patience` as `link::Link::next_hop` has it.
  Result<port::Route> route(std::size_t gid_index, const Path& path, Qpn destination,
                            std::optional<TimeNs> patience = {}) const;

  PortState state() const { return state_.load(std::memory_order_relaxed); }
  /// The new state is there before anybody hears of it.
  void change(PortState next);

  void add_listener(AsyncEvents& events);
  /// Nothing is pushed into it any more.
  void remove_listener(AsyncEvents& events);

 private:
  AppendOnlyList<GidEntry, kGidsMax> gids_;
  std::array<link::Stack*, kGidsMax> links_{};  // By GID index.
  std::vector<std::unique_ptr<link::Stack>> stacks_;

  static_assert(std::atomic<PortState>::is_always_lock_free);
  std::atomic<PortState> state_{PortState{}};  // Written under lock_; tells of nothing else.
  std::mutex lock_;
  std::unordered_set<AsyncEvents*> listeners_;
};

/// What `ibv_get_async_event` shall tell of a change, in this order.
std::vector<AsyncEventType> events_between(const PortState& before, const PortState& now);

}  // namespace verbatim::adapter
