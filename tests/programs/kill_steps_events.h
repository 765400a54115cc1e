#pragma once

#include <cstdint>

#include <poll.h>

#include "tests/programs/endpoint.h"

namespace kill_steps {

/// A completion queue and its channel.
class Events {
 public:
  Events(const endpoint::Device& device, int completions)
      : channel_(ibv_create_comp_channel(device.context)) {
    endpoint::check(channel_ != nullptr, "ibv_create_comp_channel");
    cq_ = ibv_create_cq(device.context, completions, nullptr, channel_, 0);
    endpoint::check(cq_ != nullptr, "ibv_create_cq");
  }

  ibv_cq* cq() const { return cq_; }

  /// Arms the queue for the next entry.
  void expect() {
    take(0);
    endpoint::check(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
  }
  /// Returns true if it is there or comes in time.
  bool has_come(std::int64_t limit_ns) { return take(static_cast<int>(limit_ns / 1'000'000)); }

 private:
  bool take(int limit_ms) {
    bool any = false;
    pollfd readable{channel_->fd, POLLIN, 0};
    while (poll(&readable, 1, any ? 0 : limit_ms) > 0) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      endpoint::check(ibv_get_cq_event(channel_, &cq, &context) == 0, "ibv_get_cq_event");
      ibv_ack_cq_events(cq, 1);
      any = true;
    }
    return any;
  }

  ibv_comp_channel* channel_;
  ibv_cq* cq_ = nullptr;
};

}  // namespace kill_steps
