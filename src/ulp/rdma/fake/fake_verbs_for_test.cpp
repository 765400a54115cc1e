// The calls of libibverbs.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "ulp/rdma/fake/fake_adapter_for_test.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

using namespace verbatim::ulp::rdma;

namespace verbatim::ulp::rdma {
namespace {

FakeQueuePair& own(ibv_qp* queue_pair) { return static_cast<FakeQueuePair&>(*queue_pair); }
FakeCompletionQueue& own(ibv_cq* queue) { return static_cast<FakeCompletionQueue&>(*queue); }
FakeSharedQueue& own(ibv_srq* queue) { return static_cast<FakeSharedQueue&>(*queue); }

int poll(ibv_cq* queue, int most, ibv_wc* found) {
  auto& done = own(queue).done;
  int count = 0;
  for (; count < most && !done.empty(); ++count) {
    found[count] = done.front();
    done.pop_front();
  }
  return count;
}

int arm(ibv_cq* queue, int) {
  own(queue).is_armed = true;
  return 0;
}

int post_receives(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** refused) {
  FakeAdapter& fake = FakeAdapter::get();
  for (; first != nullptr; first = first->next) {
    if (fake.happens(fake.faults.post_refused)) return *refused = first, ENOMEM;
    if (own(queue).posted.size() >= own(queue).depth) fake.violation("shared queue overrun");
    own(queue).posted.push_back({first->wr_id, *first->sg_list});
  }
  return 0;
}

int post_own_receives(ibv_qp* queue_pair, ibv_recv_wr* first, ibv_recv_wr**) {
  for (; first != nullptr; first = first->next) {
    own(queue_pair).receives.push_back({first->wr_id, *first->sg_list});
  }
  return 0;
}

FakeQueuePair::Posted posted_of(const ibv_send_wr& request) {
  FakeQueuePair::Posted posted{.id = request.wr_id,
                               .signaled = (request.send_flags & IBV_SEND_SIGNALED) != 0,
                               .invalidates = request.opcode == IBV_WR_SEND_WITH_INV,
                               .opcode = request.opcode,
                               .remote = request.wr.rdma.remote_addr};
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& slice = request.sg_list[i];
    if ((request.send_flags & IBV_SEND_INLINE) == 0) {
      posted.slices.push_back(slice);
      continue;
    }
    const auto* const from = reinterpret_cast<const std::byte*>(slice.addr);
    posted.inline_bytes.insert(posted.inline_bytes.end(), from, from + slice.length);
  }
  return posted;
}

int post_sends(ibv_qp* queue_pair, ibv_send_wr* first, ibv_send_wr** refused) {
  FakeAdapter& fake = FakeAdapter::get();
  ++fake.post_calls;
  for (; first != nullptr; first = first->next) {
    if (fake.happens(fake.faults.post_refused)) return *refused = first, EIO;
    if (own(queue_pair).posted.size() >= own(queue_pair).depth)
      fake.violation("send queue overrun");
    own(queue_pair).posted.push_back(posted_of(*first));
  }
  return 0;
}

ibv_mw* allocate_window(ibv_pd* domain, ibv_mw_type type) {
  FakeAdapter::get().note("window", 1);
  return new ibv_mw{
      .context = domain->context, .pd = domain, .rkey = 0x100, .handle = 0, .type = type};
}

int deallocate_window(ibv_mw* window) {
  FakeAdapter::get().note("window", -1);
  delete window;
  return 0;
}

}  // namespace

FakeQueuePair* FakeAdapter::make_queue_pair(ibv_pd* domain, ibv_qp_init_attr& wanted) {
  if (wanted.cap.max_inline_data > inline_bytes_max) return errno = EINVAL, nullptr;
  auto* const made = new FakeQueuePair{};
  made->context = domain->context;
  made->pd = domain;
  made->send_cq = wanted.send_cq;
  made->recv_cq = wanted.recv_cq;
  made->srq = wanted.srq;
  made->qp_num = ++last_number_;
  made->depth = wanted.cap.max_send_wr;
  queue_pairs.push_back(made);
  note("queue pair", 1);
  return made;
}

/// Its completions that are not taken vanish, as a card's library does it.
void FakeAdapter::destroy(FakeQueuePair* queue_pair) {
  for (ibv_cq* const queue : {queue_pair->send_cq, queue_pair->recv_cq}) {
    if (queue == nullptr) continue;
    std::erase_if(own(queue).done,
                  [&](const ibv_wc& one) { return one.qp_num == queue_pair->qp_num; });
  }
  std::erase(queue_pairs, queue_pair);
  std::erase_if(async, [&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == queue_pair;
  });
  note("queue pair", -1);
  delete queue_pair;
}

}  // namespace verbatim::ulp::rdma

extern "C" {

const char* ibv_get_device_name(ibv_device*) { return "fake0"; }
__be64 ibv_get_device_guid(ibv_device*) { return 1; }
const char* ibv_wc_status_str(ibv_wc_status) { return "status"; }

int ibv_query_device(ibv_context*, ibv_device_attr* has) {
  *has = {.max_qp_wr = 1024,
          .device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B,
          .max_sge = 4,
          .max_cqe = 1 << 16,
          .max_qp_rd_atom = 16,
          .max_qp_init_rd_atom = 16,
          .max_srq_wr = 4096};
  if (!FakeAdapter::get().has_windows) has->device_cap_flags = 0;
  return 0;
}

int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* port) {
  reinterpret_cast<ibv_port_attr*>(port)->state = IBV_PORT_ACTIVE;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t, int, ibv_gid*) { return -1; }
int ibv_query_pkey(ibv_context*, uint8_t, int, __be16*) { return -1; }

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  FakeAdapter::get().note("domain", 1);
  context->ops.poll_cq = poll;
  context->ops.req_notify_cq = arm;
  context->ops.post_srq_recv = post_receives;
  context->ops.post_send = post_sends;
  context->ops.post_recv = post_own_receives;
  context->ops.alloc_mw = allocate_window;
  context->ops.dealloc_mw = deallocate_window;
  return new ibv_pd{.context = context, .handle = 0};
}
int ibv_dealloc_pd(ibv_pd* domain) {
  FakeAdapter::get().note("domain", -1);
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t length, int) {
  FakeAdapter::get().note("region", 1);
  return new ibv_mr{.context = domain->context,
                    .pd = domain,
                    .addr = address,
                    .length = length,
                    .handle = 0,
                    .lkey = 1,
                    .rkey = 2};
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, size_t length, uint64_t, int access) {
  return ibv_reg_mr(domain, address, length, access);
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t length, uint64_t, unsigned) {
  return ibv_reg_mr(domain, address, length, 0);
}
int ibv_dereg_mr(ibv_mr* region) {
  FakeAdapter::get().note("region", -1);
  delete region;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context*) {
  FakeAdapter::get().note("completion channel", 1);
  return &FakeAdapter::get().completion_channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel*) {
  FakeAdapter::get().note("completion channel", -1);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
  FakeAdapter::get().note("completion queue", 1);
  auto* const queue = new FakeCompletionQueue{};
  queue->context = context;
  queue->cqe = entries;
  return queue;
}
int ibv_resize_cq(ibv_cq* queue, int entries) {
  if (FakeAdapter::get().happens(FakeAdapter::get().faults.resize_refused)) return ENOMEM;
  queue->cqe = entries;
  return 0;
}
int ibv_destroy_cq(ibv_cq* queue) {
  FakeAdapter::get().note("completion queue", -1);
  delete &own(queue);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq** queue, void**) {
  FakeAdapter& fake = FakeAdapter::get();
  if (fake.rung.empty()) return errno = EAGAIN, -1;
  *queue = fake.rung.front();
  fake.rung.pop_front();
  fake.note("completion event", 1);
  if (fake.rung.empty()) show(fake.completion_fd, false);
  return 0;
}
void ibv_ack_cq_events(ibv_cq*, unsigned count) {
  FakeAdapter::get().note("completion event", -static_cast<int>(count));
}

ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* wanted) {
  FakeAdapter::get().note("shared queue", 1);
  auto* const queue = new FakeSharedQueue{};
  queue->context = domain->context;
  queue->depth = wanted->attr.max_wr;
  return FakeAdapter::get().shared_queue = queue;
}
int ibv_destroy_srq(ibv_srq* queue) {
  FakeAdapter::get().note("shared queue", -1);
  delete &own(queue);
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  return FakeAdapter::get().make_queue_pair(domain, *wanted);
}
int ibv_modify_qp(ibv_qp* queue_pair, ibv_qp_attr* to, int mask) {
  if ((mask & IBV_QP_STATE) == 0) return 0;
  if (to->qp_state == IBV_QPS_ERR) {
    FakeAdapter::get().to_error(own(queue_pair));
  } else {
    own(queue_pair).at = to->qp_state;
  }
  return 0;
}
int ibv_destroy_qp(ibv_qp* queue_pair) {
  FakeAdapter::get().destroy(&own(queue_pair));
  return 0;
}

int ibv_get_async_event(ibv_context*, ibv_async_event* event) {
  FakeAdapter& fake = FakeAdapter::get();
  if (fake.async.empty()) show(fake.async_fd, false);
  if (fake.async.empty()) return errno = EAGAIN, -1;
  *event = fake.async.front();
  fake.async.pop_front();
  fake.note("device event", 1);
  return 0;
}
void ibv_ack_async_event(ibv_async_event*) { FakeAdapter::get().note("device event", -1); }

}  // extern "C"
