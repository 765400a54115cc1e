#include "dropin/ibverbs/control/work_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/log.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/refusal.h"

/// Work queues and indirection tables: receive-side scaling.
namespace verbatim::dropin {
namespace {

using adapter::WorkQueueState;
static_assert(int{raw(WorkQueueState::ready)} == IBV_WQS_RDY);
static_assert(int{raw(WorkQueueState::error)} == IBV_WQS_ERR);
static_assert(std::uint32_t{adapter::kHashSourceIpv4} == IBV_RX_HASH_SRC_IPV4);
static_assert(std::uint32_t{adapter::kHashDestinationIpv6} == IBV_RX_HASH_DST_IPV6);
static_assert(std::uint32_t{adapter::kHashSourcePortTcp} == IBV_RX_HASH_SRC_PORT_TCP);
static_assert(std::uint32_t{adapter::kHashDestinationPortUdp} == IBV_RX_HASH_DST_PORT_UDP);
static_assert(std::uint32_t{adapter::kHashSpi} == IBV_RX_HASH_IPSEC_SPI);
static_assert(adapter::kHashInner == static_cast<std::uint32_t>(IBV_RX_HASH_INNER));

Result<void> check(const ibv_wq_init_attr& wanted) {
  if (wanted.wq_type != IBV_WQT_RQ) {
    return refuse(EINVAL, fmt::format("type {}: there are receive queues only",
                                      static_cast<int>(wanted.wq_type)));
  }
  if (wanted.pd == nullptr || wanted.cq == nullptr) {
    return refuse(EINVAL, "a work queue needs a protection domain and a completion queue");
  }
  if ((wanted.comp_mask & ~IBV_WQ_INIT_ATTR_FLAGS) != 0) {
    return refuse(EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted.comp_mask));
  }
  if ((wanted.comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0 && wanted.create_flags != 0) {
    return refuse(EOPNOTSUPP,
                  fmt::format("create_flags {:#x} are not served", wanted.create_flags));
  }
  return {};
}

int post_receive(ibv_wq* wq, ibv_recv_wr* request, ibv_recv_wr** bad) {
  adapter::WorkQueue& queue = *from(wq).queue;
  for (; request != nullptr; request = request->next) {
    const std::span segments(reinterpret_cast<const adapter::Segment*>(request->sg_list),
                             static_cast<std::size_t>(std::max(0, request->num_sge)));
    const int code = request->num_sge < 0 ? EINVAL : queue.post_receive(request->wr_id, segments);
    if (code == 0) continue;
    *bad = request;
    log(code == ENOMEM ? LogLevel::debug : LogLevel::warn,
        "post_wq_recv: {}: work queue {}, {} of at most {} segments, at most {} requests",
        std::strerror(code), queue.number(), request->num_sge, queue.options().segments,
        queue.options().requests);
    return code;
  }
  return 0;
}

Result<WorkQueue*> create(ibv_context* verbs, const ibv_wq_init_attr& wanted) {
  if (auto valid = check(wanted); !valid) return std::unexpected(valid.error());
  Context& context = from(verbs);
  auto own = std::make_unique<WorkQueue>();
  auto queue = adapter::WorkQueue::create(context.adapter().arena(), context.adapter().regions(),
                                          {.pd = from(wanted.pd).number(),
                                           .cq = from(wanted.cq).queue,
                                           .events = &context.events,
                                           .requests = wanted.max_wr,
                                           .segments = wanted.max_sge,
                                           .owner = own.get()});
  if (!queue) return std::unexpected(queue.error());
  own->queue = std::move(*queue);
  own->domain = Use(&from(wanted.pd));
  own->verbs.context = verbs;
  own->verbs.wq_context = wanted.wq_context;
  own->verbs.pd = wanted.pd;
  own->verbs.cq = wanted.cq;
  own->verbs.wq_num = own->queue->number();
  own->verbs.handle = own->verbs.wq_num;
  own->verbs.state = IBV_WQS_RESET;
  own->verbs.wq_type = IBV_WQT_RQ;
  own->verbs.post_recv = post_receive;
  pthread_mutex_init(&own->verbs.mutex, nullptr);
  pthread_cond_init(&own->verbs.cond, nullptr);
  const std::lock_guard guard(context.live_objects_lock);
  context.live_objects.insert(own.get());
  return own.release();
}

Result<void> modify(WorkQueue& own, const ibv_wq_attr& wanted) {
  constexpr std::uint32_t kKnown = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS;
  if ((wanted.attr_mask & ~kKnown) != 0 || wanted.attr_mask == 0) {
    return refuse(EINVAL, fmt::format("attr_mask {:#x}", wanted.attr_mask));
  }
  if ((wanted.attr_mask & IBV_WQ_ATTR_FLAGS) != 0 && wanted.flags_mask != 0) {
    return refuse(EOPNOTSUPP, fmt::format("flags {:#x} are not served", wanted.flags_mask));
  }
  const WorkQueueState from = (wanted.attr_mask & IBV_WQ_ATTR_CURR_STATE) != 0
                                  ? static_cast<WorkQueueState>(wanted.curr_wq_state)
                                  : own.queue->state();
  if ((wanted.attr_mask & IBV_WQ_ATTR_STATE) == 0) return own.queue->modify(from, from);
  if (wanted.wq_state > IBV_WQS_ERR) return refuse(EINVAL, "wq_state is no state");
  return own.queue->modify(from, static_cast<WorkQueueState>(wanted.wq_state));
}

Result<IndirectionTable*> create(ibv_context* context, const ibv_rwq_ind_table_init_attr& wanted) {
  if (wanted.comp_mask != 0) {
    return refuse(EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted.comp_mask));
  }
  if (wanted.log_ind_tbl_size >= 32 ||
      1u << wanted.log_ind_tbl_size > adapter::kIndirectionTableMax) {
    return refuse(EINVAL, fmt::format("2^{} entries are above {}", wanted.log_ind_tbl_size,
                                      adapter::kIndirectionTableMax));
  }
  auto own = std::make_unique<IndirectionTable>();
  for (std::uint32_t i = 0; i < 1u << wanted.log_ind_tbl_size; ++i) {
    if (wanted.ind_tbl[i] == nullptr) return refuse(EINVAL, fmt::format("entry {} is null", i));
    own->queues.push_back(&from(wanted.ind_tbl[i]));
  }
  for (WorkQueue* queue : own->queues) ++queue->users;
  static std::atomic<int> last_number{0};
  own->verbs.context = context;
  own->verbs.ind_tbl_num = own->verbs.ind_tbl_handle = ++last_number;
  return own.release();
}

}  // namespace

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* wanted) {
  const auto created = create(context, *wanted);
  if (!created) return refused_null("create_wq", created.error());
  wanted->max_wr = (*created)->queue->options().requests;
  wanted->max_sge = (*created)->queue->options().segments;
  return &(*created)->verbs;
}

int modify_wq(ibv_wq* wq, ibv_wq_attr* wanted) {
  const auto done = modify(from(wq), *wanted);
  if (!done) return refused("modify_wq", done.error());
  if ((wanted->attr_mask & IBV_WQ_ATTR_STATE) != 0) wq->state = wanted->wq_state;
  return 0;
}

int destroy_wq(ibv_wq* wq) {
  WorkQueue& own = from(wq);
  if (const std::uint32_t users = own.users; users > 0) {
    return refused("destroy_wq", {EBUSY, fmt::format("{} entries of indirection tables lead to the "
                                                     "work queue",
                                                     users)});
  }
  drop_async_events(from(wq->context), &own, own.events_delivered, wq->events_completed, wq->mutex,
                    wq->cond);
  pthread_cond_destroy(&wq->cond);
  pthread_mutex_destroy(&wq->mutex);
  delete &own;
  return 0;
}

ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* wanted) {
  const auto created = create(context, *wanted);
  if (!created) return refused_null("create_rwq_ind_table", created.error());
  return &(*created)->verbs;
}

int destroy_rwq_ind_table(ibv_rwq_ind_table* table) {
  IndirectionTable& own = from(table);
  if (const std::uint32_t users = *own.users; users > 0) {
    return refused("destroy_rwq_ind_table",
                   {EBUSY, fmt::format("{} queue pairs use the table", users)});
  }
  for (WorkQueue* queue : own.queues) --queue->users;
  delete &own;
  return 0;
}

Result<std::shared_ptr<const adapter::ReceiveScaling>> to_scaling(
    const ibv_qp_init_attr_ex& wanted) {
  const ibv_rx_hash_conf& hash = wanted.rx_hash_conf;
  if ((wanted.comp_mask & kScalingAttributes) != kScalingAttributes ||
      wanted.rwq_ind_tbl == nullptr) {
    return refuse(EINVAL, "receive-side scaling needs an indirection table and a hash");
  }
  if (wanted.qp_type != IBV_QPT_RAW_PACKET) {
    return refuse(EOPNOTSUPP, "RAW_PACKET queue pairs scale, and no others");
  }
  if (wanted.send_cq != nullptr || wanted.recv_cq != nullptr || wanted.srq != nullptr ||
      wanted.cap.max_send_wr != 0 || wanted.cap.max_recv_wr != 0) {
    return refuse(EINVAL, "a queue pair that scales only receives, and into its work queues");
  }
  if (hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
      hash.rx_hash_key_len != adapter::kHashKeyBytes || hash.rx_hash_key == nullptr) {
    return refuse(EINVAL,
                  fmt::format("hash function {} with a key of {} bytes: there is Toeplitz "
                              "with {}",
                              hash.rx_hash_function, hash.rx_hash_key_len, adapter::kHashKeyBytes));
  }
  if ((hash.rx_hash_fields_mask & ~std::uint64_t{adapter::kHashFieldsAll}) != 0) {
    return refuse(EINVAL, fmt::format("hash fields {:#x} are unknown", hash.rx_hash_fields_mask));
  }
  auto own = std::make_shared<adapter::ReceiveScaling>();
  own->hash.fields = static_cast<std::uint32_t>(hash.rx_hash_fields_mask);
  std::copy_n(hash.rx_hash_key, adapter::kHashKeyBytes, own->hash.key.begin());
  for (WorkQueue* queue : from(wanted.rwq_ind_tbl).queues) {
    own->table.push_back(queue->queue.get());
  }
  return own;
}

}  // namespace verbatim::dropin
