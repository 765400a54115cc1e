#include <cerrno>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/extended_post.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Creating queue pairs, plain and extended.
namespace verbatim::dropin {
namespace {

constexpr std::uint32_t kServedAttributes =
    IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// What `comp_mask` names; the rest of the program's structure may be anything.
Result<void> check_extensions(const ibv_qp_init_attr_ex& wanted) {
  if (const std::uint32_t unknown = wanted.comp_mask & ~kServedAttributes; unknown != 0) {
    return refuse(EOPNOTSUPP, fmt::format("comp_mask bits {:#x} are not served", unknown));
  }
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted.create_flags != 0) {
    return refuse(EOPNOTSUPP,
                  fmt::format("create_flags {:#x} are not served", wanted.create_flags));
  }
  return {};
}

Result<void> check(const ibv_qp_init_attr_ex& wanted) {
  if (auto served = check_extensions(wanted); !served) return served;
  switch (wanted.qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_RAW_PACKET:
      break;
    default:
      return refuse(EOPNOTSUPP,
                    fmt::format("QP type {} is not implemented: there are RC, UC, UD and "
                                "RAW_PACKET",
                                static_cast<int>(wanted.qp_type)));
  }
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted.pd == nullptr) {
    return refuse(EINVAL, "a queue pair needs a protection domain");
  }
  if (wanted.srq != nullptr)
    return refuse(EOPNOTSUPP, "shared receive queues are not implemented yet");
  if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr) {
    return refuse(EINVAL, "a queue pair needs a send and a receive completion queue");
  }
  return {};
}

void fill_in(QueuePair& own, ibv_context* context, const ibv_qp_init_attr_ex& wanted) {
  ibv_qp& verbs = own.verbs.qp_base;
  verbs.context = context;
  verbs.qp_context = wanted.qp_context;
  verbs.pd = wanted.pd;
  verbs.send_cq = wanted.send_cq;
  verbs.recv_cq = wanted.recv_cq;
  verbs.qp_num = own.queue_pair->number().value();
  verbs.handle = verbs.qp_num;
  verbs.state = IBV_QPS_RESET;
  verbs.qp_type = wanted.qp_type;
  pthread_mutex_init(&verbs.mutex, nullptr);
  pthread_cond_init(&verbs.cond, nullptr);
}

std::pmr::memory_resource* memory_of(ProtectionDomain& domain) {
  const bool own = domain.parent != nullptr && domain.parent->memory;
  return own ? &*domain.parent->memory : std::pmr::new_delete_resource();
}

Result<adapter::QueuePair*> create_on(Context& context, const adapter::QueuePairOptions& options) {
  try {
    return context.adapter().create_queue_pair(options);
  } catch (const std::bad_alloc&) {
    return refuse(ENOMEM, "no memory for the send queue");
  }
}

Result<QueuePair*> create(ibv_context* verbs, const ibv_qp_init_attr_ex& wanted) {
  if (auto valid = check(wanted); !valid) return std::unexpected(valid.error());
  const auto type = static_cast<adapter::QpType>(wanted.qp_type);
  const bool extended = (wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const auto operations = to_operations(type, extended ? wanted.send_ops_flags : 0);
  if (!operations) return std::unexpected(operations.error());
  auto own = std::make_unique<QueuePair>();
  Context& context = from(verbs);
  ProtectionDomain& domain = from(wanted.pd);
  own->domain = Use(&domain);
  const auto created = create_on(context, {.type = type,
                                           .pd = domain.number(),
                                           .send_cq = from(wanted.send_cq).queue,
                                           .receive_cq = from(wanted.recv_cq).queue,
                                           .events = &context.events,
                                           .capacity = to_capacity(wanted.cap),
                                           .signal_all = wanted.sq_sig_all != 0,
                                           .owner = own.get(),
                                           .memory = memory_of(domain)});
  if (!created) return std::unexpected(created.error());
  own->queue_pair = *created;
  fill_in(*own, verbs, wanted);
  if (extended) extend(*own, *operations);
  const std::lock_guard guard(context.living_lock);
  context.living.insert(own.get());
  context.queue_pairs.insert(own.get());
  return own.release();
}

/// The extended attributes that say the same: the plain structure is the beginning of theirs.
ibv_qp_init_attr_ex extended(ibv_pd* pd, const ibv_qp_init_attr& plain) {
  return {.qp_context = plain.qp_context,
          .send_cq = plain.send_cq,
          .recv_cq = plain.recv_cq,
          .srq = plain.srq,
          .cap = plain.cap,
          .qp_type = plain.qp_type,
          .sq_sig_all = plain.sq_sig_all,
          .comp_mask = IBV_QP_INIT_ATTR_PD,
          .pd = pd,
          .xrcd = nullptr,
          .create_flags = 0,
          .max_tso_header = 0,
          .rwq_ind_tbl = nullptr,
          .rx_hash_conf = {},
          .source_qpn = 0,
          .send_ops_flags = 0};
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted) {
  const auto created = create(context, *wanted);
  if (!created) return refused_null("create_qp_ex", created.error());
  wanted->cap = to_verbs((*created)->queue_pair->options().capacity);
  return &(*created)->verbs.qp_base;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  const auto created = create(pd->context, extended(pd, *qp_init_attr));
  if (!created) return refused_null("create_qp", created.error());
  qp_init_attr->cap = to_verbs((*created)->queue_pair->options().capacity);
  return &(*created)->verbs.qp_base;
}
