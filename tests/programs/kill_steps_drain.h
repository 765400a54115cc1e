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
      : outbox_(device, kBytes),
        completions_(
            ibv_create_cq(device.pd->context, static_cast<int>(receives), nullptr, nullptr, 0)),
        from_(create_queue_pair(device, receives)) {
    for (ibv_qp* const one : {from_, to}) device.initialise(one);
    device.connect_initialised(to, from_->qp_num, IBV_MTU_4096);
    device.connect_initialised(from_, to->qp_num, IBV_MTU_4096);
  }

  void take(std::size_t receives) {
    for (std::size_t i = 0; i < receives; ++i) {
      ibv_sge segment = outbox_.segment(kBytes);
      ibv_send_wr request{};
      request.opcode = IBV_WR_SEND;
      request.sg_list = &segment;
      request.num_sge = 1;
      request.send_flags = IBV_SEND_SIGNALED;
      ibv_send_wr* bad = nullptr;
      endpoint::check(ibv_post_send(from_, &request, &bad) == 0, "ibv_post_send");
    }
    // A request keeps its place in the send queue until its completion is polled.
    ibv_wc entry;
    while (receives > 0) receives -= static_cast<std::size_t>(ibv_poll_cq(completions_, 1, &entry));
  }

 private:
  static constexpr std::size_t kBytes = 8;

  ibv_qp* create_queue_pair(const endpoint::Device& device, std::uint32_t sends) const {
    ibv_qp_init_attr options{};
    options.send_cq = options.recv_cq = completions_;
    options.qp_type = IBV_QPT_RC;
    options.cap = endpoint::capacity(sends, 1);
    ibv_qp* const qp = ibv_create_qp(device.pd, &options);
    endpoint::check(qp != nullptr, "ibv_create_qp");
    return qp;
  }

  endpoint::Buffer outbox_;
  ibv_cq* completions_;
  ibv_qp* from_;
};

}  // namespace kill_steps
