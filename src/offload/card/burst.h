#pragma once

#include <array>
#include <cstddef>

#include "offload/card/card.h"

namespace verbatim::offload {

struct Card::Burst {
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
