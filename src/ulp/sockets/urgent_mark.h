#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace verbatim::ulp::sockets {

/// Urgent data of a received stream, by TCP's rules: the mark is the last byte that was sent with
/// MSG_OOB. Unless urgent data is inline, that byte is none of the stream's: recv(2) skips it, and
/// gets it with MSG_OOB. An earlier one that was not reached becomes an ordinary byte.
class UrgentMark {
 public:
  /// SO_OOBINLINE.
  void set_inline(bool is_inline) { is_inline_ = is_inline; }

  /// Bytes have come; `urgent` is the last of them, if it is urgent. Then `hole` is skipped before.
  void arrive(std::uint64_t bytes, std::optional<std::byte> urgent) {
    if (urgent) {
      ++marks_;
      is_set_ = true;
      is_taken_ = false;
      byte_ = *urgent;
      mark_ = arrived_ + bytes - 1;
    }
    arrived_ += bytes;
  }
  /// Bytes have been read, or skipped.
  void read(std::uint64_t bytes) {
    read_ += bytes;
    if (read_ > mark_) is_set_ = false;
  }

  /// Bytes that the next read skips: 0 or 1.
  std::uint32_t hole() const { return is_here() && !is_inline_ && arrived_ > read_ ? 1 : 0; }
  /// A read ends before the mark.
  std::uint64_t bytes_before() const {
    return is_set_ && mark_ > read_ ? mark_ - read_ : std::numeric_limits<std::uint64_t>::max();
  }
  /// As FIONREAD.
  std::uint64_t bytes_to_read() const {
    return is_set_ && !is_inline_ ? mark_ - read_ : arrived_ - read_;
  }
  /// As sockatmark(3).
  bool is_here() const { return is_set_ && mark_ == read_; }
  /// Counts urgent bytes that have come.
  std::uint32_t marks() const { return marks_; }
  /// As POLLPRI.
  bool is_waiting() const { return is_set_ && !is_taken_; }
  /// The byte, as by MSG_OOB. Nothing: none has come, it was taken, or it is inline.
  std::optional<std::byte> take(bool peek) {
    if (!is_waiting() || is_inline_) return std::nullopt;
    is_taken_ = !peek;
    return byte_;
  }

 private:
  // Positions count all bytes, from 0.
  std::uint64_t arrived_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t mark_ = 0;
  std::uint32_t marks_ = 0;
  std::byte byte_{};
  bool is_inline_ = false;
  bool is_set_ = false;
  bool is_taken_ = false;
};

}  // namespace verbatim::ulp::sockets
