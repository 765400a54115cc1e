#pragma once

#include <cstdint>

#include "tests/programs/endpoint.h"
#include "tests/programs/kill_steps.h"

namespace kill_steps {

/// The survivor's memory windows, which the victim invalidates with a SEND: two for each round.
class Windows {
 public:
  Windows(const endpoint::Device& device, endpoint::Buffer& area) : device_(device) {
    region_ = ibv_reg_mr(device.pd, area.bytes.data(), area.bytes.size(),
                         endpoint::kAccess | IBV_ACCESS_MW_BIND);
    endpoint::check(region_ != nullptr, "ibv_reg_mr");
  }

  void make() {
    for (ibv_mw*& window : windows_) {
      window = ibv_alloc_mw(device_.pd, IBV_MW_TYPE_2);
      endpoint::check(window != nullptr, "ibv_alloc_mw");
    }
  }

  /// Binds them to a queue pair that sends, with these keys.
  void bind(ibv_qp* qp, std::uint32_t (&keys)[2]) {
    for (int i = 0; i < 2; ++i) {
      ibv_send_wr request{};
      request.opcode = IBV_WR_BIND_MW;
      request.send_flags = IBV_SEND_SIGNALED;
      request.bind_mw.mw = windows_[i];
      request.bind_mw.rkey = ibv_inc_rkey(windows_[i]->rkey);
      request.bind_mw.bind_info = {region_, reinterpret_cast<std::uint64_t>(region_->addr),
                                   region_->length, IBV_ACCESS_REMOTE_WRITE};
      ibv_send_wr* bad = nullptr;
      endpoint::check(ibv_post_send(qp, &request, &bad) == 0, "binding a window");
      device_.completions(1);
      keys[i] = request.bind_mw.rkey;
    }
  }

  void free() {
    for (ibv_mw*& window : windows_) {
      if (window != nullptr) endpoint::check(ibv_dealloc_mw(window) == 0, "ibv_dealloc_mw");
      window = nullptr;
    }
  }

 private:
  const endpoint::Device& device_;
  ibv_mr* region_ = nullptr;
  ibv_mw* windows_[2] = {};
};

}  // namespace kill_steps
