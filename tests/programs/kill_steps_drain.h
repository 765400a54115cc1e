#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/programs/endpoint.h"

namespace kill_steps {

/// Empties a shared receive queue, which no error flushes: sends messages to it over two queue
/// pairs.
class Drain {
 public:
  /// `to` takes its receives from the shared queue, which has at most `receives` of them.
  Drain(const endpoint::Device& device, ibv_qp* to, std::uint32_t receives)
      : outbox_(device, kBytes), from_(device.create_queue_pair(IBV_QPT_RC, receives, 1)) {
    for (ibv_qp* const one : {from_, to}) device.initialise(one);
    device.connect_initialised(to, from_->qp_num, IBV_MTU_4096);
    device.connect_initialised(from_, to->qp_num, IBV_MTU_4096);
  }

  void take(std::size_t receives) {
    for (; receives > 0; --receives) {
      ibv_sge segment = outbox_.segment(kBytes);
      ibv_send_wr request{};
      request.opcode = IBV_WR_SEND;
      request.sg_list = &segment;
      request.num_sge = 1;
      ibv_send_wr* bad = nullptr;
      endpoint::check(ibv_post_send(from_, &request, &bad) == 0, "ibv_post_send");
    }
  }

 private:
  static constexpr std::size_t kBytes = 8;

  endpoint::Buffer outbox_;
  ibv_qp* from_;
};

}  // namespace kill_steps
