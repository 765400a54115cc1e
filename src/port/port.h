#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "adapter/queues/async_event.h"
#include "base/types.h"

namespace verbatim::adapter {

/// What the agent tells of the network behind the port.
struct PortState {
  std::uint32_t gids = ~0u;  // Bit i: entry i of the GID table is valid.
  bool is_present = true;    // False: the interface is gone, and the adapter with it.
  bool is_active = true;
  Mtu active_mtu = Mtu::k4096;  // Changes without an event, as a kernel driver has it.

  bool has_gid(std::size_t index) const { return (gids >> index & 1) != 0; }
  friend bool operator==(const PortState&, const PortState&) = default;
};

/// The port and who wants to hear of its events: one queue for each opened context. Thread-safe.
class Port {
 public:
  PortState state() const { return state_.load(std::memory_order_relaxed); }
  /// The new state is there before anybody hears of it.
  void change(PortState next);

  void add_listener(AsyncEvents& events);
  /// Nothing is pushed into it any more.
  void remove_listener(AsyncEvents& events);

 private:
  static_assert(std::atomic<PortState>::is_always_lock_free);
  std::atomic<PortState> state_{PortState{}};  // Written under lock_; tells of nothing else.
  std::mutex lock_;
  std::unordered_set<AsyncEvents*> listeners_;
};

/// What `ibv_get_async_event` shall tell of a change, in this order.
std::vector<AsyncEventType> events_between(const PortState& before, const PortState& now);

}  // namespace verbatim::adapter
