#include "adapter/queues/shared_receive_queue.h"

#include <cerrno>

#include <fmt/format.h>

#include "adapter/adapter.h"
#include "adapter/direct/xrc_queue_owners.h"
#include "adapter/progress/progress.h"
#include "arena/target.h"

namespace verbatim::adapter {

Result<std::unique_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(
    Arena& arena, SrqNumber number, const SharedReceiveOptions& options) {
  auto queue = ReceiveQueue::create(arena, options.requests, options.segments);
  if (!queue) return std::unexpected(queue.error());
  // The limit is armed by `modify` alone (manual page of ibv_create_srq: "irrelevant" there).
  return std::unique_ptr<SharedReceiveQueue>(
      new SharedReceiveQueue(number, options, std::move(*queue)));
}

bool SharedReceiveQueue::take(ReceiveRequest& out) {
  if (!queue_->take(out)) return false;
  report_limit();
  return true;
}

bool SharedReceiveQueue::take(TaggedMessage& message, bool finishes_rendezvous,
                              ReceiveRequest& out) {
  using Kind = TaggedMessage::Kind;
  if (message.kind == Kind::no_tag) return take(out);
  const bool may_match = message.kind == Kind::eager || finishes_rendezvous;
  const auto taken = tags_->take(message.header.tag, may_match, out, [&] { return take(out); });
  if (taken == TagMatching::Taken::untagged) message.kind = Kind::unexpected;
  if (taken == TagMatching::Taken::tagged && message.is_rendezvous()) {
    const std::uint64_t length = message.source().length;
    if (length > out.capacity_bytes || length > Limits::message_bytes) {
      message.kind = Kind::rendezvous_too_long;
    }
  }
  return taken != TagMatching::Taken::nothing;
}

namespace {

CompletionOpcode opcode_of(TagOperation::Kind kind) {
  switch (kind) {
    case TagOperation::Kind::add:
      return CompletionOpcode::tag_added;
    case TagOperation::Kind::remove:
      return CompletionOpcode::tag_removed;
    case TagOperation::Kind::synchronize:
      return CompletionOpcode::tags_synchronized;
  }
  return CompletionOpcode::tags_synchronized;
}

}  // namespace

int SharedReceiveQueue::post_tag_operation(const TagOperation& operation, std::uint32_t& handle) {
  if (!tags_) return EINVAL;
  const auto outcome = tags_->carry_out(operation);
  if (!outcome) return outcome.error();
  if (operation.kind == TagOperation::Kind::add) handle = outcome->handle;
  if (!operation.signaled && outcome->status == transport::Status::success) return 0;
  const Completion completion{
      .wr_id = operation.wr_id,
      .status = outcome->status,
      .opcode = opcode_of(operation.kind),
      .flags = outcome->must_synchronize ? kCompletionTagsMustSynchronize : 0};
  options_.cq->push(completion, false);  // A full one tells of that itself.
  return 0;
}

void SharedReceiveQueue::report_limit() {
  if (queue_->disarm_limit()) raise_limit_event();
}

void SharedReceiveQueue::raise_limit_event() {
  options_.events->push({AsyncEventType::srq_limit_reached, options_.owner});
}

void SharedReceiveQueue::on_notifications(std::uint32_t notifications) {
  if ((notifications & kSrqLimitReached) != 0) report_limit();
  if ((notifications & kReceiveCompleted) != 0) options_.cq->notify_channel();
  if ((notifications & kCompletionsOverrun) != 0) options_.cq->report_overrun();
}

Result<void> SharedReceiveQueue::modify(const SharedReceiveAttributes& wanted) {
  const std::uint32_t capacity_then = wanted.requests.value_or(capacity());
  if (wanted.limit && *wanted.limit > capacity_then) {
    return refuse(EINVAL, fmt::format("srq_limit {} is above max_wr, which is {}", *wanted.limit,
                                      capacity_then));
  }
  if (wanted.requests) {
    if (*wanted.requests > Limits::requests) {
      return refuse(EINVAL,
                    fmt::format("max_wr {} is above {}", *wanted.requests, Limits::requests));
    }
    if (auto resized = queue_->resize(std::max(1u, *wanted.requests)); !resized) return resized;
  }
  if (wanted.limit) {
    if (queue_->set_limit(*wanted.limit)) raise_limit_event();
    report_limit();
  }
  return {};
}

// The adapter's table of them.

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

Result<void> Adapter::check_shared_receive(const SharedReceiveOptions& wanted) const {
  if (wanted.requests > Limits::requests) {
    return refuse(EINVAL, fmt::format("max_wr {} is above {}", wanted.requests, Limits::requests));
  }
  if (wanted.segments > Limits::segments) {
    return refuse(EINVAL, fmt::format("max_sge {} is above {}", wanted.segments, Limits::segments));
  }
  if (!pds_.contains(wanted.pd)) return refuse(EINVAL, "no such protection domain");
  if (wanted.type == SharedReceiveType::tag_matching) return check_tag_matching(wanted);
  if (wanted.type != SharedReceiveType::xrc) return {};
  if (!xrc_domains_.contains(wanted.xrc_domain)) return refuse(EINVAL, "no such XRC domain");
  if (wanted.cq == nullptr) {
    return refuse(EINVAL, "an XRC shared receive queue needs a completion queue");
  }
  return {};
}

Result<SharedReceiveQueue*> Adapter::create_shared_receive_queue(
    const SharedReceiveOptions& wanted) {
  const std::lock_guard guard(lock_);
  if (auto valid = check_shared_receive(wanted); !valid) return std::unexpected(valid.error());
  SharedReceiveOptions options = wanted;
  options.requests = granted_receives(options.requests);
  options.segments = std::max(1u, options.segments);
  std::uint32_t local = 0;
  for (std::uint32_t tries = 0; tries < kProgramQueuePairsMax && local == 0; ++tries) {
    const std::uint32_t next = ++last_shared_receive_ % kProgramQueuePairsMax;
    if (!shared_receives_.contains(next)) local = next;
  }
  if (local == 0) {
    return refuse(ENOMEM, fmt::format("all {} shared receive queue numbers are in use",
                                      Limits::shared_receive_queues));
  }
  auto queue = SharedReceiveQueue::create(*arena_, SrqNumber{membership_.first_qpn.value() + local},
                                          options);
  if (!queue) return std::unexpected(queue.error());
  ++pds_[options.pd].users;
  if (options.cq != nullptr) ++options.cq->users;
  if (options.type == SharedReceiveType::xrc) ++xrc_domains_[options.xrc_domain].users;
  SharedReceiveQueue* const created = queue->get();
  if (options.type == SharedReceiveType::xrc) publish(*created);
  progress_->between_passes([&] { shared_receives_.emplace(local, std::move(*queue)); });
  return created;
}

/// Peers that name the queue find it from now on.
void Adapter::publish(const SharedReceiveQueue& queue) {
  XrcQueue& place = arena_->xrc_queue(queue.number());
  place.domain = queue.options().xrc_domain;
  place.file = xrc_domains_[place.domain].file;
  place.pd = queue.options().pd;
  place.receives = queue.ring();
  place.cq = queue.options().cq->ring();
  place.notifications.store(0, std::memory_order_relaxed);
  place.number.store(raw(queue.number()), std::memory_order_release);
}

/// None finds it when this returns, nor uses it.
void Adapter::withdraw(const SharedReceiveQueue& queue) {
  arena_->xrc_queue(queue.number()).number.store(0, std::memory_order_seq_cst);
  wait_for_target_unlocks();
}

Result<void> Adapter::destroy_shared_receive_queue(SharedReceiveQueue* queue) {
  const std::lock_guard guard(lock_);
  if (const auto users = queue->users.load(); users != 0) {
    return refuse(EBUSY, fmt::format("{} queue pairs use the shared receive queue", users));
  }
  const SharedReceiveOptions options = queue->options();
  if (options.type == SharedReceiveType::xrc) withdraw(*queue);
  progress_->between_passes([&] {
    if (own_peer_) forget_queue(*own_peer_, queue->number());
    // XRC: a message that is coming in ends with its queue.
    if (options.cq != nullptr) {
      numbers_.for_each([&](QueuePair& queue_pair) { queue_pair.forget(*queue); });
    }
    shared_receives_.erase(raw(queue->number()) % kProgramQueuePairsMax);
  });
  --pds_[options.pd].users;
  if (options.cq != nullptr) --options.cq->users;
  if (options.type == SharedReceiveType::xrc) --xrc_domains_[options.xrc_domain].users;
  return {};
}

SharedReceiveQueue* Adapter::find_shared_receive(SrqNumber number, XrcDomain domain) const {
  const auto found = shared_receives_.find(raw(number) % kProgramQueuePairsMax);
  if (found == shared_receives_.end()) return nullptr;
  SharedReceiveQueue& queue = *found->second;
  const bool serves = queue.number() == number && queue.options().type == SharedReceiveType::xrc &&
                      queue.options().xrc_domain == domain;
  return serves ? &queue : nullptr;
}

}  // namespace verbatim::adapter
