#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace verbatim::ulp::scsi {

/// Writes parameter data from its start. What does not fit is counted, not written: lists tell
/// their whole length, and initiators ask again with more room.
class DataWriter {
 public:
  explicit DataWriter(MutableByteSpan room) : room_(room) {}

  std::size_t size() const { return size_; }
  ByteSpan bytes() const { return room_.first(std::min(size_, room_.size())); }

  template <std::unsigned_integral T>
  void put(T value) {
    if (size_ + sizeof value <= room_.size()) store_be(room_.data() + size_, value);
    size_ += sizeof value;
  }
  void byte(unsigned value) { put(static_cast<std::uint8_t>(value)); }
  void zeros(std::size_t count) {
    while (count-- > 0) byte(0);
  }
  /// Left-aligned, cut or filled up with `filler`.
  void text(std::string_view text, std::size_t width, char filler) {
    for (std::size_t i = 0; i < width; ++i)
      byte(static_cast<unsigned char>(i < text.size() ? text[i] : filler));
  }
  /// Sets bytes that have been written before.
  template <std::unsigned_integral T>
  void set(std::size_t at, T value) {
    if (at + sizeof value <= room_.size()) store_be(room_.data() + at, value);
  }

 private:
  MutableByteSpan room_;
  std::size_t size_ = 0;
};

}  // namespace verbatim::ulp::scsi
