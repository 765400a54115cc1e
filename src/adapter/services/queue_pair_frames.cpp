#include "adapter/adapter.h"
#include "adapter/ethernet/work_queue.h"
#include "adapter/memory/scatter.h"
#include "adapter/progress/progress.h"
#include "adapter/queue_pair/queue_pair.h"
#include "wire/net/frame_checksum.h"

/// Raw packet queue pairs: sends and receives whole Ethernet frames.
namespace verbatim::adapter {

using transport::Status;

/// Copies the frames of one call into a batch, which is sent when it is full and at the end; then
/// their requests complete.
void QueuePair::transmit_frames(TimeNs now) {
  if (options_.scaling) return;
  while (handed_ < send_queue_.posted() && state() == QpState::rts && may_send(now)) {
    const std::uint64_t length = send_queue_.wqe(handed_).request.length;
    pacer_.count(now, length);
    const bool fits =
        length >= wire::kEthernetHeaderBytes && length <= adapter_.steering().frame_bytes_max();
    if (fits && !frames_->has_room_for(length)) send_frames();
    const Status status = fits ? add_frame(handed_) : Status::local_length_error;
    if (status == Status::success) {
      ++handed_;
      continue;
    }
    send_frames();
    complete_send(handed_++, status);
    enter_send_queue_error();
  }
  send_frames();
  if (fatal_) fail();
  check_drained();
  rearm_timer();
}

Status QueuePair::add_frame(transport::Slot slot) {
  const SendWqe& wqe = send_queue_.wqe(slot);
  const auto length = static_cast<std::uint32_t>(wqe.request.length);
  const MutableByteSpan frame = frames_->add(length);
  if (wqe.inlined) {
    std::ranges::copy(send_queue_.inline_bytes(slot), frame.begin());
  } else {
    if (!gather(regions_, options_.pd, send_queue_.segments(slot), 0, frame)) {
      frames_->drop_last();
      return Status::local_protection_error;
    }
  }
  if (wqe.fill_checksums) wire::fill_checksums(frame, wire::parse_frame(frame).outer);
  return Status::success;
}

/// Frames that the interface refuses are lost, as on a cable: the requests complete anyway.
void QueuePair::send_frames() {
  if (frames_->empty()) return;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < frames_->size(); ++i) bytes += frames_->frame(i).size();
  if (adapter_.steering().send(*frames_) == 0) {
    record_->counters.packets_sent.add_exclusive(frames_->size());
    record_->counters.bytes_sent.add_exclusive(bytes);
  }
  for (std::size_t i = 0; i < frames_->size(); ++i) {
    complete_send(send_queue_.completed(), Status::success);
  }
  frames_->clear();
}

void QueuePair::on_frame(const SteeredFrame& frame) {
  if (options_.scaling) return options_.scaling->queue_for(frame.layers).on_frame(frame);
  const std::lock_guard guard(lock_);
  const QpState current = state();
  if (current == QpState::reset || current == QpState::init || current == QpState::err) return;
  auto completion = receive_frame(frame, *receive_queue_, current_receive_, regions_, options_.pd);
  if (!completion) return;  // No receive is posted: dropped.
  completion->qpn = number_.value();
  record_->counters.packets_received.add_exclusive();
  record_->counters.bytes_received.add_exclusive(frame.bytes.size());
  push(*options_.receive_cq, *completion, false);
  if (completion->status != Status::success) fatal_ = true;
  if (fatal_) fail();
}

}  // namespace verbatim::adapter
