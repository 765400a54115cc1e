#include "adapter/ethernet/frame_delivery.h"

#include "adapter/memory/scatter.h"

namespace verbatim::adapter {

using Status = CompletionStatus;

std::optional<Completion> receive_frame(const SteeredFrame& frame, ReceiveQueue& receives,
                                        ReceiveRequest& scratch, const region::RegionTable& regions,
                                        PdNumber pd) {
  if (!receives.take(scratch)) return std::nullopt;
  Completion completion{.wr_id = scratch.wr_id,
                        .opcode = CompletionOpcode::receive,
                        .byte_count = static_cast<std::uint32_t>(frame.bytes.size()),
                        .immediate = frame.tag,
                        .flags = frame.checksums_valid ? kCompletionChecksumsValid : 0};
  if (frame.bytes.size() > scratch.capacity_bytes) {
    completion.status = Status::local_length_error;
  } else if (region::CachedHold kept;
             !scatter(kept, regions, pd, std::span(scratch.segments, scratch.segment_count), 0,
                      frame.bytes)) {
    completion.status = Status::local_protection_error;
  }
  return completion;
}

}  // namespace verbatim::adapter
