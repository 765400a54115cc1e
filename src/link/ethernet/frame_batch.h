#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "base/bytes.h"

namespace verbatim::link {

/// The largest Ethernet frame, without the frame check sequence: a jumbo frame with a VLAN tag.
inline constexpr std::size_t kFrameBytesMax = 9'978 + 18;

/// Ethernet frames that are sent together, in one buffer. Before each is room for the header of an
/// emulated segment.
class FrameBatch {
 public:
  static constexpr std::size_t kFramesMax = 64;
  static constexpr std::size_t kHeaderBytes = 8;

  FrameBatch() : buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool has_room_for(std::size_t bytes) const {
    return count_ < kFramesMax && ends_[count_] + kHeaderBytes + bytes <= kBufferBytes;
  }
  /// Returns room for one more frame, to be filled. Requires that there is room.
  MutableByteSpan add(std::size_t bytes) {
    VERBATIM_ASSERT(has_room_for(bytes));
    ends_[count_ + 1] = ends_[count_] + kHeaderBytes + bytes;
    ++count_;
    return frame(count_ - 1);
  }
  void drop_last() { --count_; }
  void clear() { count_ = 0; }

  MutableByteSpan frame(std::size_t i) const { return with_header(i).subspan(kHeaderBytes); }
  MutableByteSpan with_header(std::size_t i) const {
    return {buffer_.get() + ends_[i], ends_[i + 1] - ends_[i]};
  }

 private:
  static constexpr std::size_t kBufferBytes = 65'507;  // UDP over IPv4 in one call.
  std::unique_ptr<std::byte[]> buffer_;
  std::array<std::size_t, kFramesMax + 1> ends_{};  // Ends of the frames; the first element is 0.
  std::size_t count_ = 0;
};

}  // namespace verbatim::link
