#pragma once

#include <cerrno>

#include <infiniband/verbs.h>

#include "base/time.h"

/// Completion queues whose entries have the time at which they came, also while nobody looked: so
/// that a wait can report sockets in the order in which they became ready.
namespace verbatim::rsocket {

/// Null and errno as ibv_create_cq_ex.
inline ibv_cq_ex* make_completion_queue(ibv_context* context, std::uint32_t entries,
                                        ibv_comp_channel* channel) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = entries;
  wanted.channel = channel;
  wanted.wc_flags =
      IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  wanted.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;  // The socket's lock.
  return ibv_create_cq_ex(context, &wanted);
}

/// Calls `take(completion, time)` for all entries, of which it uses what rsockets and SDP need.
/// Returns false if the queue fails.
template <typename Take>
bool take_all(ibv_cq_ex* queue, Take&& take) {
  ibv_poll_cq_attr none{};
  int error = ibv_start_poll(queue, &none);
  if (error != 0) return error == ENOENT;
  for (; error == 0; error = ibv_next_poll(queue)) {
    ibv_wc entry{};
    entry.wr_id = queue->wr_id;
    entry.status = queue->status;
    entry.byte_len = ibv_wc_read_byte_len(queue);
    entry.imm_data = ibv_wc_read_imm_data(queue);
    entry.wc_flags = ibv_wc_read_wc_flags(queue);
    take(entry, ibv_wc_read_completion_ts(queue));
  }
  ibv_end_poll(queue);
  return error == ENOENT;
}

}  // namespace verbatim::rsocket
