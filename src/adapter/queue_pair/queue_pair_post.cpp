#include <cerrno>

#include "adapter/limits.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "base/always_inline.h"

/// Posting: from the program's request to its completion, if the direct path executes it at once,
/// or to the send queue. Each step is inlined in the one before; rare cases are elsewhere.
namespace verbatim::adapter {

using transport::Operation;
using transport::Status;

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
    const bool fits = work.request.length <= core_.options.capacity.inline_bytes ||
                      operation == Operation::atomic_write;
    if (!fits) return EINVAL;
  } else if (work.segments.size() > core_.sends.segments_max()) {
    return EINVAL;
  }
  if (work.request.length > Limits::message_bytes) return EINVAL;
  if (type() == QpType::ud && work.destination == nullptr) return EINVAL;
  if ((work.flags & kPostFillChecksums) != 0 && type() != QpType::raw_packet) return EINVAL;
  // IBA 11.2.5.2: with none outstanding allowed, READs and atomics are no operations of this queue
  // pair.
  return info.awaits_response && core_.attributes.max_rd_atomic == 0 ? EINVAL : 0;
}

VERBATIM_ALWAYS_INLINE bool QueuePair::execute_at_once(const SendWork& work) {
  const bool is_next = core_.sends.empty() && state() == QpState::rts && !core_.fatal &&
                       !core_.pacer.is_limited() && executed_ < DirectLink::kBytesPerCall;
  const transport::SendRequest& request = work.request;
  const bool in_pieces = work.inlined() && work.segments.size() > 1;
  if (!is_next || in_pieces || transport::info(request.operation).is_local) return false;
  ByteSpan inlined;  // The program's own memory and pointer: no region is needed.
  if (work.inlined() && !work.segments.empty()) {
    inlined = {reinterpret_cast<const std::byte*>(work.segments.front().address), request.length};
  }
  const LocalMemory local =
      core_.local_memory(work.inlined() ? std::span<const Segment>() : work.segments, inlined);
  auto* const datagram = std::get_if<services::Datagram>(&service_);
  const auto status = datagram != nullptr ? datagram->send_directly(work, local)
                                          : direct_.execute_now(request, local);
  if (!status) return false;
  executed_ += request.length;
  const bool failed = *status != Status::success;
  const bool tells = failed || work.signaled() || core_.options.signal_all;
  core_.end_send(work.wr_id, request, *status, tells);
  if (failed) direct_.end(work.wr_id, request, *status);
  return true;
}

VERBATIM_ALWAYS_INLINE void QueuePair::take_post(const SendWork& work) {
  core_.sends.places().take();
  if (execute_at_once(work)) return;
  core_.sends.push(work, core_.options.signal_all);
  if (state() == QpState::err || state() == QpState::sqe) core_.flush_posted();
}

int QueuePair::Posting::post(const SendWork& work) {
  if (const int refused = queue_pair_.check_post(work); refused != 0) return refused;
  if (!queue_pair_.core_.has_places(1)) return ENOMEM;
  queue_pair_.take_post(work);
  return 0;
}

int QueuePair::Posting::post(std::span<const SendWork> works) {
  for (const SendWork& work : works) {
    if (const int refused = queue_pair_.check_post(work); refused != 0) return refused;
  }
  if (!queue_pair_.core_.has_places(works.size())) return ENOMEM;
  for (const SendWork& work : works) queue_pair_.take_post(work);
  return 0;
}

/// Releases the queue pair's lock after the posted requests are sent, and before this thread yields
/// its CPU.
void QueuePair::Posting::send_posted() {
  const TimeNs now = monotonic_now();
  Progress& progress = queue_pair_.core_.around.progress;
  const auto use = progress.note_post(now);
  {
    const std::lock_guard guard(queue_pair_.lock_, std::adopt_lock);
    const bool may_gather =
        std::visit([](const auto& service) { return service.may_gather(); }, queue_pair_.service_);
    if (may_gather && progress.defer_to_poll(queue_pair_)) return;
    if (auto* const stream = std::get_if<services::Stream>(&queue_pair_.service_)) {
      stream->note_post(now);
    }
    queue_pair_.transmit_locked(now);
  }
  queue_pair_.yield_if_unreliable();
}

}  // namespace verbatim::adapter
