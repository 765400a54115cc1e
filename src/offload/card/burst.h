#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "offload/card/tap.h"
#include "offload/switch/frames/edited_frame.h"
#include "offload/switch/switch.h"

namespace verbatim::offload {

/// A burst is also full with so many bytes.
inline constexpr std::size_t kBytesInABurst = 128 << 10;

/// A frame that a port has brought. The end of it may lie in its sender's memory still: it is
/// brought here only for what changes the frame, or cuts it.
struct ArrivedFrame {
  MutableByteSpan bytes;  // Of the whole frame.
  ByteSpan rest;          // Its end, which is not there.
  FrameNote note;
  ByteSpan head() const { return bytes.first(bytes.size() - rest.size()); }
  void complete() {
    if (rest.empty()) return;
    std::memcpy(bytes.last(rest.size()).data(), rest.data(), rest.size());
    rest = {};
  }
};

/// Frames that one turn takes from a port together.
struct Burst {
  std::array<std::array<std::byte, EditedFrame::kHeadroom + Tap::kFrameMax>, Switch::kBatch> rooms;
  MutableByteSpan room(std::size_t i) {
    return MutableByteSpan(rooms[i]).subspan(EditedFrame::kHeadroom);
  }
  /// For a packet that is cut from a large frame.
  MutableByteSpan packet_room() { return MutableByteSpan(packet).subspan(EditedFrame::kHeadroom); }
  std::array<std::byte, EditedFrame::kHeadroom + Tap::kFrameMax> packet;
  std::array<ArrivedFrame, Switch::kBatch> frames;
  std::array<Arrival, Switch::kBatch> arrivals;
  std::array<Verdict, Switch::kBatch> verdicts;
};

}  // namespace verbatim::offload
