#include <cerrno>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Polling completion queues; completion channels.
namespace verbatim::dropin {
namespace {

using transport::Status;
static_assert(int{raw(Status::local_length_error)} == IBV_WC_LOC_LEN_ERR);
static_assert(int{raw(Status::local_qp_operation_error)} == IBV_WC_LOC_QP_OP_ERR);
static_assert(int{raw(Status::local_protection_error)} == IBV_WC_LOC_PROT_ERR);
static_assert(int{raw(Status::flushed)} == IBV_WC_WR_FLUSH_ERR);
static_assert(int{raw(Status::memory_window_bind_error)} == IBV_WC_MW_BIND_ERR);
static_assert(int{raw(Status::bad_response)} == IBV_WC_BAD_RESP_ERR);
static_assert(int{raw(Status::local_access_error)} == IBV_WC_LOC_ACCESS_ERR);
static_assert(int{raw(Status::remote_invalid_request)} == IBV_WC_REM_INV_REQ_ERR);
static_assert(int{raw(Status::remote_access_error)} == IBV_WC_REM_ACCESS_ERR);
static_assert(int{raw(Status::remote_operation_error)} == IBV_WC_REM_OP_ERR);
static_assert(int{raw(Status::retry_exceeded)} == IBV_WC_RETRY_EXC_ERR);
static_assert(int{raw(Status::rnr_retry_exceeded)} == IBV_WC_RNR_RETRY_EXC_ERR);
static_assert(int{raw(Status::tag_matching_error)} == IBV_WC_TM_ERR);
static_assert(int{raw(Status::rendezvous_incomplete)} == IBV_WC_TM_RNDV_INCOMPLETE);

using adapter::CompletionOpcode;
static_assert(int{raw(CompletionOpcode::send)} == IBV_WC_SEND);
static_assert(int{raw(CompletionOpcode::write)} == IBV_WC_RDMA_WRITE);
static_assert(int{raw(CompletionOpcode::read)} == IBV_WC_RDMA_READ);
static_assert(int{raw(CompletionOpcode::compare_and_swap)} == IBV_WC_COMP_SWAP);
static_assert(int{raw(CompletionOpcode::fetch_and_add)} == IBV_WC_FETCH_ADD);
static_assert(int{raw(CompletionOpcode::bind_window)} == IBV_WC_BIND_MW);
static_assert(int{raw(CompletionOpcode::local_invalidate)} == IBV_WC_LOCAL_INV);
static_assert(int{raw(CompletionOpcode::atomic_write)} == IBV_WC_ATOMIC_WRITE);
static_assert(int{raw(CompletionOpcode::receive)} == IBV_WC_RECV);
static_assert(int{raw(CompletionOpcode::receive_write_with_immediate)} ==
              IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(int{raw(CompletionOpcode::tag_added)} == IBV_WC_TM_ADD);
static_assert(int{raw(CompletionOpcode::tag_removed)} == IBV_WC_TM_DEL);
static_assert(int{raw(CompletionOpcode::tags_synchronized)} == IBV_WC_TM_SYNC);
static_assert(int{raw(CompletionOpcode::tagged_receive)} == IBV_WC_TM_RECV);
static_assert(int{raw(CompletionOpcode::untagged_receive)} == IBV_WC_TM_NO_TAG);
static_assert(adapter::kCompletionGrh == IBV_WC_GRH);
static_assert(adapter::kCompletionWithImmediate == IBV_WC_WITH_IMM);
static_assert(adapter::kCompletionWithInvalidate == IBV_WC_WITH_INV);
static_assert(adapter::kCompletionTagsMustSynchronize == IBV_WC_TM_SYNC_REQ);
static_assert(adapter::kCompletionTagMatch == IBV_WC_TM_MATCH);
static_assert(adapter::kCompletionTagDataValid == IBV_WC_TM_DATA_VALID);

void to_verbs(const adapter::Completion& entry, ibv_wc& completion) {
  completion.wr_id = entry.wr_id;
  completion.status = static_cast<ibv_wc_status>(raw(entry.status));
  completion.opcode = static_cast<ibv_wc_opcode>(raw(entry.opcode));
  completion.vendor_err = entry.vendor_error;
  completion.byte_len = entry.byte_count;
  completion.imm_data = entry.immediate;
  completion.qp_num = entry.qpn;
  completion.src_qp = entry.source_qpn;
  completion.wc_flags = entry.flags;
  completion.pkey_index = entry.pkey_index;
  completion.slid = entry.source_lid;
  completion.sl = entry.service_level;
  completion.dlid_path_bits = entry.path_bits;
}

}  // namespace

int poll_cq(ibv_cq* cq, int entries, ibv_wc* completions) {
  if (entries <= 0) return 0;
  const auto taken =
      from(cq->context)
          .adapter()
          .poll(*from(cq).queue, static_cast<std::size_t>(entries),
                [&](const adapter::Completion& entry) { to_verbs(entry, *completions++); });
  return static_cast<int>(taken);
}

int request_notification(ibv_cq* cq, int solicited_only) {
  from(cq->context).adapter().arm(*from(cq).queue, solicited_only != 0);
  return 0;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto semaphore = adapter::Semaphore::create();
  if (!semaphore) return refused_null("create_comp_channel", semaphore.error());
  const int fd = semaphore->fd();
  auto* channel = new Channel{.verbs = {.context = context, .fd = fd, .refcnt = 0},
                              .queue = adapter::CompletionChannel(std::move(*semaphore)),
                              .live_objects_lock = {},
                              .live_objects = {}};
  return &channel->verbs;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  Channel& own = from(channel);
  {
    const std::lock_guard guard(own.live_objects_lock);
    if (channel->refcnt != 0) {
      return refused("destroy_comp_channel",
                     {EBUSY, fmt::format("{} completion queues use it", channel->refcnt)});
    }
  }
  delete &own;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  Channel& own = from(channel);
  for (;;) {
    const auto event = own.queue.wait();
    if (!event) return refused_minus_one("get_cq_event", event.error());
    const std::lock_guard guard(own.live_objects_lock);
    const auto found = own.live_objects.find(*event);
    if (found == own.live_objects.end())
      continue;  // Destroyed meanwhile; see Context::live_objects_lock.
    found->first->count_delivered_event();
    *cq = to_verbs(*found->second);
    *cq_context = (*cq)->cq_context;
    return 0;
  }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int nevents) {
  if (nevents == 0) return;
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += nevents;
  pthread_mutex_unlock(&cq->mutex);
  // The last access: the queue may be about to be destroyed.
  from(cq).queue->acknowledge_events(nevents);
}
