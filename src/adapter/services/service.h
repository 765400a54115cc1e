#pragma once

#include <concepts>
#include <cstdint>

#include "adapter/queue_pair/core/queue_pair_state.h"
#include "base/time.h"

namespace verbatim::adapter::services {

/// What a queue pair asks of its service, under its lock. A service does not stop the queue pair
/// itself: it sets `QueuePairCore::fatal`, and the queue pair looks after each of these calls.
template <typename S>
concept Service = requires(S service, const S constant, QpState from, QpState to,
                           std::uint32_t changed, TimeNs now, bool orderly) {
  service.enter(from, to, changed);  // Attributes have changed; the state is about to.
  service.transmit(now);             // Sends what there is to send.
  { service.on_timer(now) } -> std::same_as<bool>;  // True: something was due.
  /// The queue pair stops: says what the peer has to know. `orderly`: as the program wishes it,
  /// so what it has posted leaves first where no peer acknowledges it.
  service.send_last(orderly);
  service.flush();  // Ends the requests that are the engine's as flushed.
  service.reset();
  { constant.deadline() } -> std::same_as<TimeNs>;
  /// What was just posted may wait for what the program posts next.
  { constant.may_gather() } -> std::same_as<bool>;
  { constant.is_on_wire() } -> std::same_as<bool>;  // Packets or segments may come.
};

/// Of a service whose requests have ended when they have left: nothing is outstanding, nothing is
/// owed to a peer.
struct Unacknowledged {
  static bool on_timer(TimeNs) { return false; }
  static void send_last(bool) {}
  static void flush() {}
  static TimeNs deadline() { return kNever; }
  static bool may_gather() { return false; }
  static bool is_on_wire() { return true; }
};

}  // namespace verbatim::adapter::services
