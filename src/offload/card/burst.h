#pragma once

#include <array>
#include <cstddef>

#include "offload/card/tap.h"
#include "offload/switch/frames/edited_frame.h"
#include "offload/switch/switch.h"

namespace verbatim::offload {

/// A burst is also full with so many bytes.
inline constexpr std::size_t kBytesInABurst = 128 << 10;

/// Frames that one turn takes from a port together.
struct Burst {
  std::array<std::array<std::byte, EditedFrame::kHeadroom + Tap::kFrameMax>, Switch::kBatch> rooms;
  MutableByteSpan room(std::size_t i) {
    return MutableByteSpan(rooms[i]).subspan(EditedFrame::kHeadroom);
  }
  /// For a packet that is cut from a large frame.
  MutableByteSpan packet_room() { return MutableByteSpan(packet).subspan(EditedFrame::kHeadroom); }
  std::array<std::byte, EditedFrame::kHeadroom + Tap::kFrameMax> packet;
  std::array<FrameNote, Switch::kBatch> notes;
  std::array<Arrival, Switch::kBatch> arrivals;
  std::array<Verdict, Switch::kBatch> verdicts;
};

}  // namespace verbatim::offload
