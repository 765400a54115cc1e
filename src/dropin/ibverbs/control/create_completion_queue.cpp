#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "adapter/limits.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Creating, resizing and destroying completion queues, plain and extended.
namespace verbatim::dropin {
namespace {

constexpr std::uint64_t kTimestamps =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kServedFields = std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimestamps |
                                        IBV_WC_EX_WITH_FLOW_TAG | IBV_WC_EX_WITH_TM_INFO;
constexpr std::uint32_t kServedAttributes = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr std::uint32_t kServedFlags =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

std::uint32_t flags_of(const ibv_cq_init_attr_ex& wanted) {
  return (wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? wanted.flags : 0;
}

Result<void> check(const ibv_context* verbs, const ibv_cq_init_attr_ex& wanted) {
  if (wanted.comp_vector >= static_cast<std::uint32_t>(verbs->num_comp_vectors)) {
    return refuse(EINVAL, fmt::format("comp_vector {} does not exist: there are {}",
                                      wanted.comp_vector, verbs->num_comp_vectors));
  }
  if (const auto unknown = wanted.comp_mask & ~kServedAttributes; unknown != 0) {
    return refuse(EOPNOTSUPP, fmt::format("comp_mask bits {:#x} are not served", unknown));
  }
  if ((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      (wanted.parent_domain == nullptr || from(wanted.parent_domain).parent == nullptr)) {
    return refuse(EINVAL, "parent_domain is none: it was not made by ibv_alloc_parent_domain");
  }
  if (const auto unknown = flags_of(wanted) & ~kServedFlags; unknown != 0) {
    return refuse(EOPNOTSUPP, fmt::format("flags {:#x} are not served", unknown));
  }
  if (const auto unknown = wanted.wc_flags & ~kServedFields; unknown != 0) {
    return refuse(EOPNOTSUPP, fmt::format("wc_flags {:#x} are not served", unknown));
  }
  return {};
}

/// Returns the number of entries that programs are told. Rounding up may exceed the device's limit.
int entries_of(const CompletionQueue& own) {
  const std::uint32_t most = from(own.verbs.context).limits().max_cqe;
  return static_cast<int>(std::min(own.queue->capacity(), most));
}

/// Events for the queue are delivered from here on.
void enlist(CompletionQueue& own) {
  Context& context = from(own.verbs.context);
  {
    const std::lock_guard guard(context.live_objects_lock);
    context.live_objects.insert(&own);
  }
  if (own.verbs.channel == nullptr) return;
  Channel& events = from(own.verbs.channel);
  const std::lock_guard guard(events.live_objects_lock);
  events.live_objects.emplace(own.queue, &own);
  ++events.verbs.refcnt;
}

Result<CompletionQueue*> create(ibv_context* verbs, const ibv_cq_init_attr_ex& wanted) {
  if (auto valid = check(verbs, wanted); !valid) return std::unexpected(valid.error());
  auto own = std::make_unique<CompletionQueue>();
  const std::uint32_t flags = flags_of(wanted);
  own->verbs.context = verbs;
  own->verbs.channel = wanted.channel;
  own->verbs.cq_context = wanted.cq_context;
  if ((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    own->domain = Use(&from(wanted.parent_domain));
  }
  const Context& context = from(verbs);
  if (auto fits = check_limit("cqe", wanted.cqe, context.limits().max_cqe); !fits) {
    return std::unexpected(fits.error());
  }
  auto share = context.usage().take(Resource::completion_queue, completion_queue_pages(wanted.cqe));
  if (!share) return std::unexpected(share.error());
  own->share = std::move(*share);
  own->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  auto queue = from(verbs).adapter().create_completion_queue(
      {.capacity = adapter::granted_completions(wanted.cqe, context.limits().max_cqe),
       .channel = wanted.channel != nullptr ? &from(wanted.channel).queue : nullptr,
       .events = &from(verbs).events,
       .owner = own.get(),
       .timestamps = (wanted.wc_flags & kTimestamps) != 0,
       .ignores_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0});
  if (!queue) return std::unexpected(queue.error());
  own->queue = queue->release();
  own->verbs.cqe = entries_of(*own);
  pthread_mutex_init(&own->verbs.mutex, nullptr);
  pthread_cond_init(&own->verbs.cond, nullptr);
  enlist(*own);
  return own.release();
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  const auto created = create(context, *wanted);
  if (!created) return refused_null("create_cq_ex", created.error());
  extend(**created);
  return &(*created)->verbs;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector) {
  // A negative number becomes too large.
  const auto created = create(context, {.cqe = static_cast<std::uint32_t>(cqe),
                                        .cq_context = cq_context,
                                        .channel = channel,
                                        .comp_vector = static_cast<std::uint32_t>(comp_vector)});
  if (!created) return refused_null("create_cq", created.error());
  return to_verbs(**created);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
  adapter::CompletionQueue& queue = *from(cq).queue;
  const auto most = from(cq->context).limits().max_cqe;
  if (auto fits = check_limit("cqe", static_cast<std::uint32_t>(cqe), most); !fits) {
    return refused("resize_cq", fits.error());
  }
  const auto wanted = static_cast<std::uint32_t>(cqe);
  if (auto resized = queue.resize(wanted); !resized) return refused("resize_cq", resized.error());
  // As much as a new one gets, if there is memory.
  static_cast<void>(queue.resize(adapter::granted_completions(wanted, most)));
  cq->cqe = entries_of(from(cq));
  return 0;
}

int ibv_destroy_cq(ibv_cq* cq) {
  CompletionQueue& own = from(cq);
  if (const auto users = own.queue->users.load(); users != 0) {
    return refused("destroy_cq", {EBUSY, fmt::format("{} queue pairs complete into it", users)});
  }
  drop_async_events(from(cq->context), &own, own.events_delivered, cq->async_events_completed,
                    cq->mutex, cq->cond);
  Channel* const channel = cq->channel != nullptr ? &from(cq->channel) : nullptr;
  if (channel != nullptr) {
    const std::lock_guard guard(channel->live_objects_lock);
    channel->live_objects.erase(own.queue);
  }
  delete own.queue;  // Waits until its completion events are acknowledged.
  if (channel != nullptr) {
    const std::lock_guard guard(channel->live_objects_lock);
    --channel->verbs.refcnt;
  }
  pthread_cond_destroy(&cq->cond);
  pthread_mutex_destroy(&cq->mutex);
  delete &own;
  return 0;
}
