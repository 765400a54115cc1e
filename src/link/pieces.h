#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include <sys/uio.h>

#include "base/bytes.h"

/// Scatter lists.
namespace verbatim::link {

inline std::size_t total_bytes(std::span<const iovec> pieces) {
  std::size_t total = 0;
  for (const iovec& piece : pieces) total += piece.iov_len;
  return total;
}

/// Iterates over pieces of memory; takes the next bytes as separate pieces.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const iovec> pieces) : pieces_(pieces) {}
  bool at_end() const { return index_ == pieces_.size(); }

  /// Returns the next `bytes` (fewer at the end) as at most `out.size()` pieces; an empty span if
  /// more pieces would be needed.
  std::span<const iovec> take(std::size_t bytes, std::span<iovec> out) {
    std::size_t count = 0;
    while (bytes > 0 && !at_end()) {
      if (count == out.size()) return {};
      const iovec& piece = pieces_[index_];
      const std::size_t length = std::min(bytes, piece.iov_len - offset_);
      if (length > 0) out[count++] = {static_cast<char*>(piece.iov_base) + offset_, length};
      bytes -= length;
      offset_ += length;
      if (offset_ == piece.iov_len) {
        ++index_;
        offset_ = 0;
      }
    }
    return out.first(count);
  }

  /// Copies the next `out.size()` bytes (fewer at the end). Returns how many.
  std::size_t copy(MutableByteSpan out) {
    std::size_t copied = 0;
    while (copied < out.size() && !at_end()) {
      const iovec& piece = pieces_[index_];
      const std::size_t length = std::min(out.size() - copied, piece.iov_len - offset_);
      std::memcpy(out.data() + copied, static_cast<const char*>(piece.iov_base) + offset_, length);
      copied += length;
      offset_ += length;
      if (offset_ == piece.iov_len) {
        ++index_;
        offset_ = 0;
      }
    }
    return copied;
  }

 private:
  std::span<const iovec> pieces_;
  std::size_t index_ = 0;
  std::size_t offset_ = 0;
};

}  // namespace verbatim::link
