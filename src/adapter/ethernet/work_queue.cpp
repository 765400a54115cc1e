#include "adapter/ethernet/work_queue.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::adapter {

using Status = CompletionStatus;

namespace {

/// Unique in this process, never 0; numbers of work queues have no meaning elsewhere.
std::uint32_t next_number() {
  static std::atomic<std::uint32_t> last{0};
  return (last.fetch_add(1, std::memory_order_relaxed) + 1) & 0xffffff;
}

const char* name_of(WorkQueueState state) {
  switch (state) {
    case WorkQueueState::reset:
      return "RESET";
    case WorkQueueState::ready:
      return "RDY";
    case WorkQueueState::error:
      return "ERR";
  }
  return "unknown";
}

}  // namespace

Result<std::unique_ptr<WorkQueue>> WorkQueue::create(Arena& arena,
                                                     const region::RegionTable& regions,
                                                     const WorkQueueOptions& wanted) {
  if (wanted.requests > kRequestsMax || wanted.segments > kSegmentsMax) {
    return refuse(EINVAL,
                  fmt::format("{} requests of {} segments: at most {} of {} are possible",
                              wanted.requests, wanted.segments, kRequestsMax, kSegmentsMax));
  }
  WorkQueueOptions options = wanted;
  options.requests = std::max(1u, options.requests);
  options.segments = std::max(1u, options.segments);
  auto receives = ReceiveQueue::create(arena, options.requests, options.segments);
  if (!receives) return std::unexpected(receives.error());
  return std::unique_ptr<WorkQueue>(new WorkQueue(regions, options, std::move(*receives)));
}

WorkQueue::WorkQueue(const region::RegionTable& regions, const WorkQueueOptions& options,
                     std::unique_ptr<ReceiveQueue> receives)
    : regions_(regions), options_(options), number_(next_number()), receives_(std::move(receives)) {
  ++options_.cq->users;
}

WorkQueue::~WorkQueue() { --options_.cq->users; }

WorkQueueState WorkQueue::state() const {
  const std::lock_guard guard(lock_);
  return state_;
}

Result<void> WorkQueue::modify(WorkQueueState expected, WorkQueueState to) {
  const std::lock_guard guard(lock_);
  if (expected != state_) {
    return refuse(EINVAL, fmt::format("work queue {} is in {}, not in {} as curr_wq_state says",
                                      number_, name_of(state_), name_of(expected)));
  }
  if (to == WorkQueueState::reset) {
    while (receives_->take(scratch_)) {
    }
  } else if (to != state_ && !(state_ == WorkQueueState::reset && to == WorkQueueState::ready) &&
             !(state_ == WorkQueueState::ready && to == WorkQueueState::error)) {
    return refuse(EINVAL, fmt::format("a work queue does not go from {} to {}", name_of(state_),
                                      name_of(to)));
  }
  state_ = to;
  if (to == WorkQueueState::error) flush();
  return {};
}

int WorkQueue::post_receive(std::uint64_t wr_id, std::span<const Segment> segments) {
  const std::lock_guard guard(lock_);
  if (state_ == WorkQueueState::reset) return EINVAL;
  if (const int refused = receives_->post(wr_id, segments); refused != 0) return refused;
  if (state_ == WorkQueueState::error) flush();
  return 0;
}

void WorkQueue::on_frame(const SteeredFrame& frame) {
  const std::lock_guard guard(lock_);
  if (state_ != WorkQueueState::ready) return;
  auto completion = receive_frame(frame, *receives_, scratch_, regions_, options_.pd);
  if (!completion) return;  // No receive is posted: dropped.
  completion->qpn = number_;
  push(*completion);
  if (completion->status == Status::success) return;
  state_ = WorkQueueState::error;
  flush();
  options_.events->push({AsyncEventType::wq_fatal, options_.owner});
}

void WorkQueue::flush() {
  while (receives_->take(scratch_)) {
    push({.wr_id = scratch_.wr_id,
          .status = Status::flushed,
          .opcode = CompletionOpcode::receive,
          .qpn = number_});
  }
}

void WorkQueue::push(const Completion& completion) {
  options_.cq->push(completion, false);  // A full queue reports that itself.
}

}  // namespace verbatim::adapter
