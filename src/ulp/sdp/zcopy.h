#pragma once

#include <cstdint>

#include "ulp/sdp/wire/message.h"

/// ZCopy by SrcAvail (annex A4, combined mode): the sender offers memory, whose first bytes are in
/// the message; the receiver reads the rest and says how much (RdmaRdCompl), or refuses (SendSm),
/// and then the rest comes in Data messages.
namespace verbatim::ulp::sdp {

/// Memory that this side has offered. No Data is sent until it is read or refused.
class Lending {
 public:
  bool is_open() const { return is_open_; }
  void begin(std::uint32_t sequence, std::uint32_t bytes, std::uint32_t inline_bytes) {
    *this = Lending();
    is_open_ = true;
    sequence_ = sequence;
    bytes_ = bytes;
    moved_ = inline_bytes;
  }
  /// RdmaRdCompl. Returns false if nothing like that was offered.
  bool on_read(std::uint32_t bytes) {
    if (!is_open_ || bytes > bytes_ - moved_) return false;
    moved_ += bytes;
    is_open_ = moved_ < bytes_;
    return true;
  }
  /// SendSm, which acknowledges the message of that MSeq.
  bool on_refusal(std::uint32_t acknowledged) {
    if (!is_open_ || static_cast<std::int32_t>(acknowledged - sequence_) < 0) return false;
    is_open_ = false;
    return true;
  }
  /// Bytes of the offer that the peer has, those in the message included.
  std::uint32_t moved() const { return moved_; }

  /// SrcAvailCancel is sent once.
  void cancel() { cancel_owed_ = is_open_ && !is_cancelled_; }
  bool take_cancel() {
    if (!cancel_owed_ || !is_open_) return cancel_owed_ = false;
    cancel_owed_ = false;
    return is_cancelled_ = true;
  }

 private:
  bool is_open_ = false;
  bool cancel_owed_ = false;
  bool is_cancelled_ = false;
  std::uint32_t sequence_ = 0;
  std::uint32_t bytes_ = 0;
  std::uint32_t moved_ = 0;
};

/// Memory that the peer has offered.
class Borrowing {
 public:
  bool is_open() const { return is_open_; }
  /// Returns false if one is open already, or this is none.
  bool begin(const SourceAvailable& memory, std::uint32_t inline_bytes) {
    if (is_open_ || inline_bytes == 0 || inline_bytes >= memory.bytes) return false;
    is_open_ = true;
    rest_ = {.bytes = memory.bytes - inline_bytes,
             .key = memory.key,
             .address = memory.address + inline_bytes};
    return true;
  }
  /// What is not read yet.
  const SourceAvailable& rest() const { return rest_; }
  bool can_be_read() const { return is_open_ && !is_refused_; }
  /// From now on a READ is in flight, which must end before the peer may use its memory.
  void begin_read() { is_reading_ = true; }
  void on_read(std::uint32_t bytes) {
    is_reading_ = false;
    rest_.bytes -= bytes;
    rest_.address += bytes;
    read_owed_ += bytes;
    if (rest_.bytes == 0) is_open_ = is_refused_ = false;
  }
  void refuse() { is_refused_ = is_open_; }

  std::uint32_t read_owed() const { return read_owed_; }
  void told_read() { read_owed_ = 0; }
  bool refusal_owed() const { return is_refused_ && !is_reading_; }
  void told_refusal() { is_open_ = is_refused_ = false; }

 private:
  bool is_open_ = false;
  bool is_refused_ = false;
  bool is_reading_ = false;
  std::uint32_t read_owed_ = 0;
  SourceAvailable rest_;
};

}  // namespace verbatim::ulp::sdp
