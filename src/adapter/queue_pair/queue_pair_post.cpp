#include <cerrno>

#include "adapter/adapter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "adapter/services/stream.h"
#include "base/always_inline.h"
#include "base/assert.h"

/// Posting: from the program's request to its completion, if the direct path executes it at once,
/// or to the send queue. Each step is inlined in the one before; rare cases are elsewhere.
namespace verbatim::adapter {

using transport::Operation;
using transport::Status;
using Outcome = DirectLink::Outcome;

namespace {

constexpr CompletionOpcode opcode_of(Operation operation) {
  switch (operation) {
    case Operation::send:
    case Operation::send_with_immediate:
    case Operation::send_with_invalidate:
      return CompletionOpcode::send;
    case Operation::write:
    case Operation::write_with_immediate:
      return CompletionOpcode::write;
    case Operation::read:
      return CompletionOpcode::read;
    case Operation::compare_and_swap:
      return CompletionOpcode::compare_and_swap;
    case Operation::fetch_and_add:
      return CompletionOpcode::fetch_and_add;
    case Operation::bind_window:
      return CompletionOpcode::bind_window;
    case Operation::local_invalidate:
      return CompletionOpcode::local_invalidate;
    case Operation::flush:
      return CompletionOpcode::flush;
    case Operation::atomic_write:
      return CompletionOpcode::atomic_write;
  }
  return CompletionOpcode::send;
}

}  // namespace

VERBATIM_ALWAYS_INLINE int QueuePair::check_post(const SendWork& work) const {
  const QpState now = state();
  if (now == QpState::reset || now == QpState::init || now == QpState::rtr) return EINVAL;
  const Operation operation = work.request.operation;
  const bool is_served =
      raw(operation) < transport::kOperations && (served_ >> raw(operation) & 1) != 0;
  if (!is_served) return EINVAL;
  const transport::OperationInfo& info = transport::info(operation);
  if (info.is_eight_bytes && work.request.length != 8) return EINVAL;
  if (work.inlined()) {
    if (info.data == transport::DataFlow::in) return EINVAL;
    const bool fits = work.request.length <= options_.capacity.inline_bytes ||
                      operation == Operation::atomic_write;
    if (!fits) return EINVAL;
  } else if (work.segments.size() > send_queue_.segments_max()) {
    return EINVAL;
  }
  if (work.request.length > Limits::message_bytes) return EINVAL;
  if (is_datagram() && work.destination == nullptr) return EINVAL;
  if ((work.flags & kPostFillChecksums) != 0 && !is_raw()) return EINVAL;
  // IBA 11.2.5.2: if none may be outstanding, this queue pair does not support READs and atomics.
  return info.awaits_response && attributes_.max_rd_atomic == 0 ? EINVAL : 0;
}

VERBATIM_ALWAYS_INLINE void QueuePair::push_send_completion(std::uint64_t wr_id,
                                                            const transport::SendRequest& request,
                                                            Status status) {
  const bool fits =
      options_.send_cq->push({.wr_id = wr_id,
                              .status = status,
                              .opcode = opcode_of(request.operation),
                              .byte_count = static_cast<std::uint32_t>(request.length),
                              .qpn = number_.value()},
                             false);
  if (!fits) fatal_ = true;
}

void QueuePair::complete_send(transport::Slot slot, Status status) {
  VERBATIM_ASSERT(slot == send_queue_.completed());
  if (options_.finishes_rendezvous()) return complete_rendezvous(slot, status);
  const SendWqe& wqe = send_queue_.wqe(slot);
  if (wqe.signaled || status != Status::success) {
    push_send_completion(wqe.wr_id, wqe.request, status);
  }
  send_queue_.pop();
}

/// Returns nothing if it does not complete at once.
VERBATIM_ALWAYS_INLINE std::optional<Status> QueuePair::execute_now(
    const transport::SendRequest& request, const LocalMemory& local) {
  if (link_ == nullptr) return {};
  const Outcome outcome = link_->execute(request, local);
  count_direct(*link_, outcome, request.length);
  if (outcome != Outcome::completed) return {};
  return link_->status();
}

VERBATIM_ALWAYS_INLINE bool QueuePair::execute_at_once(const SendWork& work) {
  const bool is_next = send_queue_.empty() && state() == QpState::rts && !fatal_ &&
                       !pacer_.is_limited() && executed_ < DirectLink::kBytesPerCall;
  const transport::SendRequest& request = work.request;
  const bool in_pieces = work.inlined() && work.segments.size() > 1;
  if (!is_next || in_pieces || transport::info(request.operation).is_local) return false;
  ByteSpan inlined;  // The program's own memory and pointer: no region is needed.
  if (work.inlined() && !work.segments.empty()) {
    inlined = {reinterpret_cast<const std::byte*>(work.segments.front().address), request.length};
  }
  const LocalMemory local =
      local_memory(work.inlined() ? std::span<const Segment>() : work.segments, inlined);
  const auto status = is_datagram() ? send_directly(work, local) : execute_now(request, local);
  if (!status) return false;
  executed_ += request.length;
  const bool failed = *status != Status::success;
  if (failed || work.signaled() || options_.signal_all) {
    push_send_completion(work.wr_id, request, *status);
  }
  if (failed) end_direct(work.wr_id, request, *status);
  return true;
}

VERBATIM_ALWAYS_INLINE void QueuePair::take_post(const SendWork& work) {
  if (execute_at_once(work)) return;
  push_send(work);
  if (state() == QpState::err || state() == QpState::sqe) flush_posted();
}

void QueuePair::push_send(const SendWork& work) {
  const auto slot = send_queue_.posted();
  send_queue_.push({.wr_id = work.wr_id,
                    .request = work.request,
                    .segment_count = static_cast<std::uint32_t>(work.segments.size()),
                    .signaled = work.signaled() || options_.signal_all,
                    .inlined = work.inlined(),
                    .fill_checksums = (work.flags & kPostFillChecksums) != 0},
                   work.segments);
  if (work.binding) send_queue_.set_binding(*work.binding);
  if (is_datagram()) {
    send_queue_.target(slot) = {.address = work.destination->address,
                                .source_gid_index = work.destination->vector.source_gid_index,
                                .qpn = work.remote_qpn,
                                .qkey = work.remote_qkey};
  }
}

int QueuePair::Posting::post(const SendWork& work) {
  if (const int refused = queue_pair_.check_post(work); refused != 0) return refused;
  if (queue_pair_.send_queue_.room() == 0) return ENOMEM;
  queue_pair_.take_post(work);
  return 0;
}

int QueuePair::Posting::post(std::span<const SendWork> works) {
  for (const SendWork& work : works) {
    if (const int refused = queue_pair_.check_post(work); refused != 0) return refused;
  }
  if (works.size() > queue_pair_.send_queue_.room()) return ENOMEM;
  for (const SendWork& work : works) queue_pair_.take_post(work);
  return 0;
}

/// Releases the queue pair's lock after the posted requests are sent, and before this thread yields
/// its CPU.
void QueuePair::Posting::send_posted() {
  const TimeNs now = monotonic_now();
  const auto use = queue_pair_.adapter_.progress().note_post(now);
  {
    const std::lock_guard guard(queue_pair_.lock_, std::adopt_lock);
    if (queue_pair_.may_gather() && queue_pair_.adapter_.progress().defer_to_poll(queue_pair_))
      return;
    if (queue_pair_.stream_ != nullptr) queue_pair_.stream_->posted_at = now;
    queue_pair_.transmit_locked(now);
  }
  queue_pair_.yield_if_unreliable();
}

}  // namespace verbatim::adapter
