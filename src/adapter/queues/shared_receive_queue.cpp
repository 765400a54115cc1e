#include "adapter/queues/shared_receive_queue.h"

#include <cerrno>

#include <fmt/format.h>

#include "adapter/limits.h"
#include "adapter/queues/completion_queue.h"
#include "arena/target.h"

namespace verbatim::adapter {

Result<std::unique_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(
    Arena& arena, SrqNumber number, const SharedReceiveOptions& options) {
  auto queue = ReceiveQueue::create(arena, options.requests, options.segments);
  if (!queue) return std::unexpected(queue.error());
  // Only `modify` sets the limit ("irrelevant" in the manual page of ibv_create_srq).
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
  options_.cq->push(completion, false);  // A full queue reports that itself.
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

}  // namespace verbatim::adapter
