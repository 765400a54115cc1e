#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include <sys/uio.h>

namespace verbatim::rsocket {

/// Reads and writes the user's buffers as if they were one.
class Cursor {
 public:
  explicit Cursor(std::span<const iovec> pieces) : pieces_(pieces) {
    for (const iovec& piece : pieces) left_ += piece.iov_len;
  }
  std::size_t left() const { return left_; }

  /// The next bytes that lie together.
  std::span<std::byte> piece() {
    if (left_ == 0) return {};
    while (offset_ == pieces_.front().iov_len) pieces_ = pieces_.subspan(1), offset_ = 0;
    return {static_cast<std::byte*>(pieces_.front().iov_base) + offset_,
            pieces_.front().iov_len - offset_};
  }
  /// Goes on behind bytes that were read or written otherwise.
  void skip(std::size_t bytes) {
    walk(bytes, [](std::byte*, std::size_t) {});
  }

  /// Copies the next bytes out of the user's buffers. The caller has checked that there are enough.
  void read(void* to, std::size_t bytes) {
    auto* at = static_cast<std::byte*>(to);
    walk(bytes, [&at](std::byte* piece, std::size_t size) {
      std::memcpy(at, piece, size);
      at += size;
    });
  }
  /// Copies into the user's buffers.
  void write(const void* from, std::size_t bytes) {
    const auto* at = static_cast<const std::byte*>(from);
    walk(bytes, [&at](std::byte* piece, std::size_t size) {
      std::memcpy(piece, at, size);
      at += size;
    });
  }

 private:
  template <typename Copy>
  void walk(std::size_t bytes, Copy&& copy) {
    left_ -= bytes;
    while (bytes > 0) {
      const iovec& piece = pieces_.front();
      const std::size_t size = std::min(bytes, piece.iov_len - offset_);
      if (size > 0) copy(static_cast<std::byte*>(piece.iov_base) + offset_, size);
      bytes -= size;
      offset_ += size;
      if (offset_ == piece.iov_len) {
        pieces_ = pieces_.subspan(1);
        offset_ = 0;
      }
    }
  }

  std::span<const iovec> pieces_;
  std::size_t offset_ = 0;  // Within the first piece.
  std::size_t left_ = 0;
};

}  // namespace verbatim::rsocket
