#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "adapter/limits.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Shared receive queues and XRC domains.
namespace verbatim::dropin {
namespace {

using adapter::SharedReceiveType;
static_assert(int{raw(SharedReceiveType::basic)} == IBV_SRQT_BASIC);
static_assert(int{raw(SharedReceiveType::xrc)} == IBV_SRQT_XRC);
static_assert(int{raw(SharedReceiveType::tag_matching)} == IBV_SRQT_TM);

/// Checks the fields that `comp_mask` names; other fields of the program's structure are undefined.
Result<adapter::SharedReceiveOptions> to_options(const ibv_srq_init_attr_ex& wanted) {
  const auto has = [&wanted](std::uint32_t bit) { return (wanted.comp_mask & bit) != 0; };
  if (const std::uint32_t unknown = wanted.comp_mask & ~(IBV_SRQ_INIT_ATTR_RESERVED - 1u)) {
    return refuse(EINVAL, fmt::format("comp_mask bits {:#x} are unknown", unknown));
  }
  const ibv_srq_type type = has(IBV_SRQ_INIT_ATTR_TYPE) ? wanted.srq_type : IBV_SRQT_BASIC;
  if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC && type != IBV_SRQT_TM) {
    return refuse(EOPNOTSUPP, fmt::format("srq_type {} is not served: there are BASIC, XRC and TM",
                                          static_cast<int>(type)));
  }
  if (!has(IBV_SRQ_INIT_ATTR_PD) || wanted.pd == nullptr) {
    return refuse(EINVAL, "a shared receive queue needs a protection domain");
  }
  adapter::SharedReceiveOptions options{.type = static_cast<SharedReceiveType>(type),
                                        .pd = from(wanted.pd).number(),
                                        .requests = wanted.attr.max_wr,
                                        .segments = wanted.attr.max_sge};
  if (type == IBV_SRQT_BASIC) return options;
  if (type == IBV_SRQT_TM) {
    if (!has(IBV_SRQ_INIT_ATTR_TM) || !has(IBV_SRQ_INIT_ATTR_CQ) || wanted.cq == nullptr) {
      return refuse(EINVAL, "a tag matching queue needs tm_cap and a completion queue");
    }
    options.cq = from(wanted.cq).queue;
    options.tags = wanted.tm_cap.max_num_tags;
    options.tag_operations = wanted.tm_cap.max_ops;
    return options;
  }
  if (!has(IBV_SRQ_INIT_ATTR_XRCD) || wanted.xrcd == nullptr || !has(IBV_SRQ_INIT_ATTR_CQ) ||
      wanted.cq == nullptr) {
    return refuse(EINVAL, "an XRC queue needs an XRC domain and a completion queue");
  }
  options.xrc_domain = from(wanted.xrcd).number;
  options.cq = from(wanted.cq).queue;
  return options;
}

Result<SharedReceiveQueue*> create(ibv_context* verbs, ibv_srq_init_attr_ex& wanted) {
  auto options = to_options(wanted);
  if (!options) return std::unexpected(options.error());
  Context& context = from(verbs);
  auto own = std::make_unique<SharedReceiveQueue>();
  own->domain = Use(&from(wanted.pd));
  options->events = &context.events;
  options->owner = own.get();
  const config::DeviceLimits& limits = context.limits();
  for (const auto& fits : {check_limit("max_wr", options->requests, limits.max_srq_wr),
                           check_limit("max_sge", options->segments, limits.max_srq_sge)}) {
    if (!fits) return std::unexpected(fits.error());
  }
  auto share = context.usage().take(Resource::shared_receive_queue,
                                    receive_queue_pages(options->requests, options->segments));
  if (!share) return std::unexpected(share.error());
  own->share = std::move(*share);
  options->requests = adapter::granted_receives(options->requests, limits.max_srq_wr);
  const auto created = context.adapter().create_shared_receive_queue(*options);
  if (!created) return std::unexpected(created.error());
  own->queue = *created;
  own->verbs.context = verbs;
  own->verbs.srq_context = wanted.srq_context;
  own->verbs.pd = wanted.pd;
  own->verbs.handle = raw(own->queue->number());
  pthread_mutex_init(&own->verbs.mutex, nullptr);
  pthread_cond_init(&own->verbs.cond, nullptr);
  wanted.attr.max_wr = own->queue->capacity();
  wanted.attr.max_sge = own->queue->segments_max();
  const std::lock_guard guard(context.live_objects_lock);
  context.live_objects.insert(own.get());
  context.shared_receives.insert(own.get());
  return own.release();
}

Result<adapter::XrcOpening> to_opening(const ibv_xrcd_init_attr& wanted) {
  constexpr std::uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (wanted.comp_mask != kBoth) {
    return refuse(EINVAL, fmt::format("comp_mask {:#x}: fd and oflags are needed, nothing else is "
                                      "known",
                                      wanted.comp_mask));
  }
  if ((wanted.oflags & ~(O_CREAT | O_EXCL)) != 0) {
    return refuse(EINVAL, fmt::format("oflags {:#o}: O_CREAT and O_EXCL are known", wanted.oflags));
  }
  if (wanted.fd < -1) return refuse(EBADF, fmt::format("descriptor {} is not open", wanted.fd));
  return adapter::XrcOpening{.fd = wanted.fd,
                             .create = (wanted.oflags & O_CREAT) != 0,
                             .exclusive = (wanted.oflags & O_EXCL) != 0};
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted) {
  const auto created = create(context, *wanted);
  if (!created) return refused_null("create_srq_ex", created.error());
  return &(*created)->verbs;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  *number = raw(from(srq).queue->number());
  return 0;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* wanted) {
  const auto opening = to_opening(*wanted);
  if (!opening) return refused_null("open_xrcd", opening.error());
  const auto number = from(context).adapter().xrc_domains().open(*opening);
  if (!number) return refused_null("open_xrcd", number.error());
  auto* own = new XrcDomain{.verbs = {.context = context}, .number = *number};
  const std::lock_guard guard(from(context).live_objects_lock);
  from(context).xrc_domains.insert(own);
  return &own->verbs;
}

int close_xrcd(ibv_xrcd* xrcd) {
  XrcDomain& own = from(xrcd);
  if (auto done = from(xrcd->context).adapter().xrc_domains().close(own.number); !done) {
    return refused("close_xrcd", done.error());
  }
  Context& context = from(xrcd->context);
  const std::lock_guard guard(context.live_objects_lock);
  context.xrc_domains.erase(&own);
  delete &own;
  return 0;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* srq_init_attr) {
  ibv_srq_init_attr_ex wanted{.srq_context = srq_init_attr->srq_context,
                              .attr = srq_init_attr->attr,
                              .comp_mask = IBV_SRQ_INIT_ATTR_PD,
                              .srq_type = IBV_SRQT_BASIC,
                              .pd = pd,
                              .xrcd = nullptr,
                              .cq = nullptr,
                              .tm_cap = {}};
  const auto created = create(pd->context, wanted);
  if (!created) return refused_null("create_srq", created.error());
  srq_init_attr->attr = wanted.attr;
  return &(*created)->verbs;
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* srq_attr, int srq_attr_mask) {
  if (const int unknown = srq_attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT); unknown != 0) {
    return refused("modify_srq", {EINVAL, fmt::format("mask bits {:#x} are unknown", unknown)});
  }
  adapter::SharedReceiveAttributes wanted;
  if ((srq_attr_mask & IBV_SRQ_MAX_WR) != 0) {
    const auto most = from(srq->context).limits().max_srq_wr;
    if (auto fits = check_limit("max_wr", srq_attr->max_wr, most); !fits) {
      return refused("modify_srq", fits.error());
    }
    wanted.requests = srq_attr->max_wr;
  }
  if ((srq_attr_mask & IBV_SRQ_LIMIT) != 0) wanted.limit = srq_attr->srq_limit;
  if (auto done = from(srq).queue->modify(wanted); !done) {
    return refused("modify_srq", done.error());
  }
  return 0;
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* srq_attr) {
  const adapter::SharedReceiveQueue& queue = *from(srq).queue;
  *srq_attr = {
      .max_wr = queue.capacity(), .max_sge = queue.segments_max(), .srq_limit = queue.limit()};
  return 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
  SharedReceiveQueue& own = from(srq);
  Context& context = from(srq->context);
  if (auto done = context.adapter().destroy_shared_receive_queue(own.queue); !done) {
    return refused("destroy_srq", done.error());
  }
  {
    const std::lock_guard guard(context.live_objects_lock);
    context.shared_receives.erase(&own);
  }
  drop_async_events(context, &own, own.events_delivered, srq->events_completed, srq->mutex,
                    srq->cond);
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  delete &own;
  return 0;
}
