#include "adapter/queues/shared_receives.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "adapter/limits.h"
#include "adapter/queues/completion_queue.h"
#include "arena/xrc_queue.h"

namespace verbatim::adapter {
namespace {

Result<void> check_tag_matching(const SharedReceiveOptions& wanted) {
  if (wanted.cq == nullptr) {
    return refuse(EINVAL, "a tag matching queue needs a completion queue");
  }
  if (wanted.tags == 0 || wanted.tags > kTagsMax) {
    return refuse(EINVAL, fmt::format("max_num_tags {} is not 1 to {}", wanted.tags, kTagsMax));
  }
  if (wanted.tag_operations > kTagOperationsMax) {
    return refuse(EINVAL,
                  fmt::format("max_ops {} is above {}", wanted.tag_operations, kTagOperationsMax));
  }
  return {};
}

}  // namespace

Result<void> SharedReceives::check(const SharedReceiveOptions& wanted) {
  if (wanted.requests > Limits::requests) {
    return refuse(EINVAL, fmt::format("max_wr {} is above {}", wanted.requests, Limits::requests));
  }
  if (wanted.segments > Limits::segments) {
    return refuse(EINVAL, fmt::format("max_sge {} is above {}", wanted.segments, Limits::segments));
  }
  if (wanted.type == SharedReceiveType::tag_matching) return check_tag_matching(wanted);
  if (wanted.type == SharedReceiveType::xrc && wanted.cq == nullptr) {
    return refuse(EINVAL, "an XRC shared receive queue needs a completion queue");
  }
  return {};
}

/// Returns 0 if no number is left.
std::uint32_t SharedReceives::take_number() {
  for (std::uint32_t tries = 0; tries < kProgramQueuePairsMax; ++tries) {
    const std::uint32_t number = ++last_ % kProgramQueuePairsMax;
    if (number != 0 && !queues_.contains(number)) return number;
  }
  return 0;
}

Result<SharedReceiveQueue*> SharedReceives::create(const SharedReceiveOptions& wanted) {
  if (auto valid = check(wanted); !valid) return std::unexpected(valid.error());
  SharedReceiveOptions options = wanted;
  options.requests = std::max(1u, options.requests);
  options.segments = std::max(1u, options.segments);
  const std::lock_guard guard(lock_);
  const std::uint32_t local = take_number();
  if (local == 0) {
    return refuse(ENOMEM, fmt::format("all {} shared receive queue numbers are in use",
                                      Limits::shared_receive_queues));
  }
  auto queue = SharedReceiveQueue::create(arena_, SrqNumber{first_.value() + local}, options);
  if (!queue) return std::unexpected(queue.error());
  if (options.type == SharedReceiveType::xrc) {
    const auto file = domains_.enter(options.xrc_domain);
    if (!file) return std::unexpected(file.error());
    publish(**queue, *file);
  }
  if (options.cq != nullptr) ++options.cq->users;
  SharedReceiveQueue* const created = queue->get();
  progress_.between_passes([&] { queues_.emplace(local, std::move(*queue)); });
  return created;
}

/// Publishes the queue: peers that name it find it from now on.
void SharedReceives::publish(const SharedReceiveQueue& queue, const XrcFile& file) {
  XrcQueue& place = arena_.xrc_queue(queue.number());
  place.domain = queue.options().xrc_domain;
  place.file = file;
  place.pd = queue.options().pd;
  place.receives = queue.ring();
  place.cq = queue.options().cq->ring();
  place.notifications.store(0, std::memory_order_relaxed);
  place.number.store(raw(queue.number()), std::memory_order_release);
}

Result<void> SharedReceives::destroy(SharedReceiveQueue* queue,
                                     const std::function<void()>& wait_for_peers,
                                     const std::function<void(const SharedReceiveQueue&)>& forget) {
  const std::lock_guard guard(lock_);
  if (const auto users = queue->users.load(); users != 0) {
    return refuse(EBUSY, fmt::format("{} queue pairs use the shared receive queue", users));
  }
  const SharedReceiveOptions options = queue->options();
  if (options.type == SharedReceiveType::xrc) {
    arena_.xrc_queue(queue->number()).number.store(0, std::memory_order_seq_cst);
    wait_for_peers();
  }
  progress_.between_passes([&] {
    forget(*queue);
    queues_.erase(raw(queue->number()) % kProgramQueuePairsMax);
  });
  if (options.cq != nullptr) --options.cq->users;
  if (options.type == SharedReceiveType::xrc) domains_.leave(options.xrc_domain);
  return {};
}

SharedReceiveQueue* SharedReceives::find(SrqNumber number, XrcDomain domain) const {
  const auto found = queues_.find(raw(number) % kProgramQueuePairsMax);
  if (found == queues_.end()) return nullptr;
  SharedReceiveQueue& queue = *found->second;
  const bool serves = queue.number() == number && queue.options().type == SharedReceiveType::xrc &&
                      queue.options().xrc_domain == domain;
  return serves ? &queue : nullptr;
}

void SharedReceives::take_notifications(SharedReceiveQueue& queue) {
  queue.on_notifications(
      arena_.xrc_queue(queue.number()).notifications.exchange(0, std::memory_order_seq_cst));
}

void SharedReceives::on_notified(std::uint32_t local_number) {
  const auto found = queues_.find(local_number);
  if (found != queues_.end()) take_notifications(*found->second);
}

void SharedReceives::on_attached_peer_gone() {
  for (const auto& [local, queue] : queues_) {
    queue->report_limit();
    if (queue->options().type != SharedReceiveType::xrc) continue;
    queue->options().cq->recover();
    take_notifications(*queue);
  }
}

}  // namespace verbatim::adapter
