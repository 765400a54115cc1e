#pragma once

#include <cstdint>

#include "adapter/queues/event_queue.h"

namespace verbatim::adapter {

/// Asynchronous events, with the values of `enum ibv_event_type`.
enum class AsyncEventType : std::uint8_t {
  cq_error = 0,
  qp_fatal = 1,
  qp_request_error = 2,
  qp_access_error = 3,
  communication_established = 4,
  sq_drained = 5,
  path_migrated = 6,
  path_migration_error = 7,
  device_fatal = 8,
  port_active = 9,
  port_error = 10,
  lid_change = 11,
  pkey_change = 12,
  sm_change = 13,
  srq_error = 14,
  srq_limit_reached = 15,
  qp_last_request_reached = 16,
  client_reregister = 17,
  gid_change = 18,
  wq_fatal = 19,
  device_speed_change = 20,
};
struct AsyncEvent {
  AsyncEventType type{};
  /// The drop-in's object (`owner`) of a queue pair, a completion queue or a shared receive queue;
  /// else null.
  void* object = nullptr;
  std::uint8_t port = 0;  // Of events of a port; else 0.
};
using AsyncEvents = EventQueue<AsyncEvent>;

}  // namespace verbatim::adapter
