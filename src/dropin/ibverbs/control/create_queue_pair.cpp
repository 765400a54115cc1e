#include <cerrno>

#include <fmt/format.h>

#include "adapter/limits.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/control/work_queue.h"
#include "dropin/ibverbs/data/extended_post.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Creating queue pairs, plain and extended.
namespace verbatim::dropin {
namespace {

using adapter::QpType;
static_assert(int{raw(QpType::xrc_send)} == IBV_QPT_XRC_SEND);
static_assert(int{raw(QpType::xrc_receive)} == IBV_QPT_XRC_RECV);

/// IB_QPT_SMI and IB_QPT_GSI of the kernel, 0 and 1: it refuses them to programs, whose header does
/// not name them.
constexpr int kManagementTypeMax = 1;
constexpr std::uint32_t kServedAttributes = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                            IBV_QP_INIT_ATTR_CREATE_FLAGS |
                                            IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | kScalingAttributes;

std::uint32_t flags_of(const ibv_qp_init_attr_ex& wanted) {
  return (wanted.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 ? wanted.create_flags : 0;
}

/// Checks the fields that `comp_mask` names; other fields of the program's structure are undefined.
Result<void> check_extensions(const ibv_qp_init_attr_ex& wanted) {
  if (const std::uint32_t unknown = wanted.comp_mask & ~kServedAttributes; unknown != 0) {
    return refuse(EOPNOTSUPP, fmt::format("comp_mask bits {:#x} are not served", unknown));
  }
  const std::uint32_t served =
      wanted.qp_type == IBV_QPT_UD ? std::uint32_t{IBV_QP_CREATE_BLOCK_SELF_MCAST_LB} : 0;
  if (const std::uint32_t unknown = flags_of(wanted) & ~served; unknown != 0) {
    return refuse(EOPNOTSUPP, fmt::format("create_flags {:#x} are not served", unknown));
  }
  return {};
}

Result<void> check(const ibv_qp_init_attr_ex& wanted) {
  if (auto served = check_extensions(wanted); !served) return served;
  if (static_cast<int>(wanted.qp_type) <= kManagementTypeMax) {
    return refuse(EINVAL,
                  fmt::format("QP type {}: programs cannot have queue pairs 0 and 1, which are "
                              "management's (libibumad)",
                              static_cast<int>(wanted.qp_type)));
  }
  switch (wanted.qp_type) {
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_UD:
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_XRC_SEND:
      break;
    case IBV_QPT_XRC_RECV:
      if ((wanted.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || wanted.xrcd == nullptr) {
        return refuse(EINVAL, "an XRC_RECV queue pair needs an XRC domain");
      }
      return {};
    default:
      return refuse(EOPNOTSUPP,
                    fmt::format("QP type {} is not implemented: there are RC, UC, UD, XRC and "
                                "RAW_PACKET",
                                static_cast<int>(wanted.qp_type)));
  }
  if ((wanted.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted.pd == nullptr) {
    return refuse(EINVAL, "a queue pair needs a protection domain");
  }
  if (wanted.qp_type == IBV_QPT_XRC_SEND) {
    if (wanted.send_cq != nullptr) return {};
    return refuse(EINVAL, "an XRC_SEND queue pair needs a send completion queue");
  }
  if (wants_scaling(wanted)) return {};  // `to_scaling` checks the rest.
  if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr) {
    return refuse(EINVAL, "a queue pair needs a send and a receive completion queue");
  }
  if (wanted.srq != nullptr && wanted.qp_type != IBV_QPT_RC && wanted.qp_type != IBV_QPT_UD) {
    return refuse(EINVAL, "only RC and UD queue pairs share receive queues");
  }
  const adapter::SharedReceiveQueue* const shared =
      wanted.srq != nullptr ? from(wanted.srq).queue : nullptr;
  if (shared != nullptr && shared->options().type == adapter::SharedReceiveType::xrc) {
    return refuse(EINVAL, "XRC queues serve XRC_RECV queue pairs, by their numbers");
  }
  return {};
}

Result<void> check_capacity(const adapter::QueuePairCapacity& wanted,
                            const config::DeviceLimits& limits) {
  const auto checks = {check_limit("max_send_wr", wanted.send_requests, limits.max_qp_wr),
                       check_limit("max_recv_wr", wanted.receive_requests, limits.max_qp_wr),
                       check_limit("max_send_sge", wanted.send_segments, limits.max_sge),
                       check_limit("max_recv_sge", wanted.receive_segments, limits.max_sge),
                       check_limit("max_inline_data", wanted.inline_bytes, limits.max_inline_data)};
  for (const auto& fits : checks) {
    if (!fits) return fits;
  }
  return {};
}

/// Counts one queue pair of the device, and the memory of its queues.
Result<Share> take_share(const Context& context, const adapter::QueuePairCapacity& wanted) {
  if (auto fits = check_capacity(wanted, context.limits()); !fits) {
    return std::unexpected(fits.error());
  }
  return context.usage().take(
      Resource::queue_pair,
      send_queue_pages(wanted.send_requests, wanted.send_segments, wanted.inline_bytes) +
          receive_queue_pages(wanted.receive_requests, wanted.receive_segments));
}

/// Reads only the fields that a queue pair of this type has; the program's others are ignored.
adapter::QueuePairOptions to_options(const ibv_qp_init_attr_ex& wanted) {
  adapter::QueuePairOptions own{
      .type = static_cast<QpType>(wanted.qp_type),
      .capacity = to_capacity(wanted.cap),
      .signal_all = wanted.sq_sig_all != 0,
      .ignores_own_multicast = (flags_of(wanted) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) != 0};
  if (wanted.srq != nullptr || adapter::service_of(own.type) == wire::Service::xrc) {
    own.capacity.receive_requests = own.capacity.receive_segments = 0;
  }
  if (own.type == QpType::xrc_receive) {
    own.xrc_domain = from(wanted.xrcd).number;
    return own;
  }
  own.pd = from(wanted.pd).number();
  if (wants_scaling(wanted)) return own;
  own.send_cq = from(wanted.send_cq).queue;
  if (own.type == QpType::xrc_send) return own;
  own.receive_cq = from(wanted.recv_cq).queue;
  if (wanted.srq != nullptr) own.shared_receive = from(wanted.srq).queue;
  return own;
}

void fill_in(QueuePair& own, ibv_context* context, const ibv_qp_init_attr_ex& wanted) {
  ibv_qp& verbs = own.verbs.qp_base;
  verbs.context = context;
  verbs.qp_context = wanted.qp_context;
  const bool target = wanted.qp_type == IBV_QPT_XRC_RECV;
  verbs.pd = target ? nullptr : wanted.pd;
  verbs.send_cq = target ? nullptr : wanted.send_cq;
  verbs.recv_cq = own.queue_pair->options().receive_cq != nullptr ? wanted.recv_cq : nullptr;
  verbs.srq = own.queue_pair->options().shared_receive != nullptr ? wanted.srq : nullptr;
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

QueuePair* give_out(Context& context, std::unique_ptr<QueuePair> own) {
  const std::lock_guard guard(context.live_objects_lock);
  context.live_objects.insert(own.get());
  context.queue_pairs.insert(own.get());
  return own.release();
}

Result<QueuePair*> create(ibv_context* verbs, const ibv_qp_init_attr_ex& wanted) {
  if (auto valid = check(wanted); !valid) return std::unexpected(valid.error());
  const auto type = static_cast<QpType>(wanted.qp_type);
  const bool extended = (wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const auto operations = to_operations(type, from(verbs).adapter().node().is_iwarp(),
                                        extended ? wanted.send_ops_flags : 0);
  if (!operations) return std::unexpected(operations.error());
  auto own = std::make_unique<QueuePair>();
  Context& context = from(verbs);
  adapter::QueuePairOptions options = to_options(wanted);
  options.events = &context.events;
  options.owner = own.get();
  if (wants_scaling(wanted)) {
    auto scaling = to_scaling(wanted);
    if (!scaling) return std::unexpected(scaling.error());
    options.scaling = std::move(*scaling);
    own->scaling = Use(&from(wanted.rwq_ind_tbl));
  }
  if (type != QpType::xrc_receive) {
    ProtectionDomain& domain = from(wanted.pd);
    own->domain = Use(&domain);
    options.memory = memory_of(domain);
  }
  auto share = take_share(context, options.capacity);
  if (!share) return std::unexpected(share.error());
  auto& receives = options.capacity.receive_requests;
  receives = adapter::granted_receives(receives, context.limits().max_qp_wr);
  own->share = std::move(*share);
  const auto created = create_on(context, options);
  if (!created) return std::unexpected(created.error());
  own->queue_pair = *created;
  fill_in(*own, verbs, wanted);
  if (extended) extend(*own, *operations);
  return give_out(context, std::move(own));
}

Result<QueuePair*> open(ibv_context* verbs, const ibv_qp_open_attr& wanted) {
  constexpr std::uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if ((wanted.comp_mask & kNeeded) != kNeeded || wanted.xrcd == nullptr ||
      wanted.comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) {
    return refuse(EINVAL, fmt::format("comp_mask {:#x}: number, type and XRC domain are needed",
                                      wanted.comp_mask));
  }
  if (wanted.qp_type != IBV_QPT_XRC_RECV) {
    return refuse(EINVAL, "only XRC_RECV queue pairs can be opened");
  }
  auto own = std::make_unique<QueuePair>();
  Context& context = from(verbs);
  const auto opened = context.adapter().open_queue_pair(
      Qpn(wanted.qp_num), from(wanted.xrcd).number, context.events, own.get());
  if (!opened) return std::unexpected(opened.error());
  own->queue_pair = *opened;
  ibv_qp_init_attr_ex same{};
  same.qp_type = IBV_QPT_XRC_RECV;
  if ((wanted.comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) same.qp_context = wanted.qp_context;
  fill_in(*own, verbs, same);
  own->verbs.qp_base.state = static_cast<ibv_qp_state>(raw(own->queue_pair->state()));
  return give_out(context, std::move(own));
}

/// Returns null. libfabric and UCX find the largest inline size by trying.
ibv_qp* refused_creation(const char* call, const Context& context, const ibv_qp_cap& wanted,
                         const Error& error) {
  const bool is_probe = wanted.max_inline_data > context.limits().max_inline_data;
  return is_probe ? probed_null(call, error) : refused_null(call, error);
}

/// Returns the equivalent extended attributes, whose first members are the plain ones.
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
  if (!created) {
    return refused_creation("create_qp_ex", from(context), wanted->cap, created.error());
  }
  wanted->cap = to_verbs((*created)->queue_pair->options().capacity);
  return &(*created)->verbs.qp_base;
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* wanted) {
  const auto opened = open(context, *wanted);
  if (!opened) return refused_null("open_qp", opened.error());
  return &(*opened)->verbs.qp_base;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  const auto created = create(pd->context, extended(pd, *qp_init_attr));
  if (!created) {
    return refused_creation("create_qp", from(pd->context), qp_init_attr->cap, created.error());
  }
  qp_init_attr->cap = to_verbs((*created)->queue_pair->options().capacity);
  return &(*created)->verbs.qp_base;
}
