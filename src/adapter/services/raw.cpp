#include "adapter/services/raw.h"

#include <algorithm>

#include "adapter/ethernet/steering.h"
#include "adapter/ethernet/work_queue.h"
#include "adapter/memory/scatter.h"
#include "wire/net/frame_checksum.h"

namespace verbatim::adapter::services {

using transport::Status;

Raw::Raw(QueuePairCore& core) : core_(core) {
  if (!core.options.scaling) frames_ = std::make_unique<link::FrameBatch>();
}

/// The frames of one call are copied into a batch, which leaves when it is full and at the end;
/// then their requests complete.
void Raw::transmit(TimeNs now) {
  if (frames_ == nullptr) return;
  while (core_.handed < core_.sends.posted() && core_.state() == QpState::rts &&
         core_.may_send(now)) {
    const std::uint64_t length = core_.sends.wqe(core_.handed).request.length;
    core_.pacer.count(now, length);
    const bool fits =
        length >= wire::kEthernetHeaderBytes && length <= core_.around.steering.frame_bytes_max();
    if (fits && !frames_->has_room_for(length)) send_frames();
    const Status status = fits ? add_frame(core_.handed) : Status::local_length_error;
    if (status == Status::success) {
      ++core_.handed;
      continue;
    }
    send_frames();
    core_.complete_send(core_.handed++, status);
    core_.enter_send_queue_error();
  }
  send_frames();
}

Status Raw::add_frame(transport::Slot slot) {
  const SendWqe& wqe = core_.sends.wqe(slot);
  const auto length = static_cast<std::uint32_t>(wqe.request.length);
  const MutableByteSpan frame = frames_->add(length);
  if (wqe.inlined) {
    std::ranges::copy(core_.sends.inline_bytes(slot), frame.begin());
  } else {
    if (!gather(core_.regions, core_.options.pd, core_.sends.segments(slot), 0, frame)) {
      frames_->drop_last();
      return Status::local_protection_error;
    }
  }
  if (wqe.fill_checksums) wire::fill_checksums(frame, wire::parse_frame(frame).outer);
  return Status::success;
}

/// What the interface does not take is lost, as on a cable: the requests have completed for all
/// that.
void Raw::send_frames() {
  if (frames_->empty()) return;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < frames_->size(); ++i) bytes += frames_->frame(i).size();
  if (core_.around.steering.send(*frames_) == 0) {
    core_.record.counters.packets_sent.add_exclusive(frames_->size());
    core_.record.counters.bytes_sent.add_exclusive(bytes);
  }
  for (std::size_t i = 0; i < frames_->size(); ++i) {
    core_.complete_send(core_.sends.completed(), Status::success);
  }
  frames_->clear();
}

void Raw::spread(const SteeredFrame& frame) const {
  core_.options.scaling->queue_for(frame.layers).on_frame(frame);
}

void Raw::on_frame(const SteeredFrame& frame) {
  const QpState current = core_.state();
  if (current == QpState::reset || current == QpState::init || current == QpState::err) return;
  auto completion = receive_frame(frame, *core_.receives.own, core_.receives.current, core_.regions,
                                  core_.options.pd);
  if (!completion) return;  // Nobody waits for it: dropped.
  completion->qpn = core_.number.value();
  core_.record.counters.packets_received.add_exclusive();
  core_.record.counters.bytes_received.add_exclusive(frame.bytes.size());
  core_.push(*core_.options.receive_cq, *completion, false);
  if (completion->status != Status::success) core_.fatal = true;
}

}  // namespace verbatim::adapter::services
