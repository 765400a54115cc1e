#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/time.h"
#include "fabric/trunk/datagram.h"

namespace verbatim::fabric::trunk {

/// The sending half of a trunk's go-back-N: packets that the peer has not acknowledged. What is
/// missing there is sent again, with all that follow. Pure.
class SendWindow {
 public:
  /// Packets in flight. Management packets may be more: they find room when data waits.
  static constexpr std::uint32_t kDataMax = 128;
  static constexpr std::uint32_t kMax = 256;

  SendWindow() : entries_(std::make_unique<Entries>()) {}

  bool has_room(bool is_management) const {
    return end_ - first_ < (is_management ? kMax : kDataMax);
  }
  /// Data packets for which there is room.
  std::uint32_t room() const { return kDataMax - std::min(end_ - first_, kDataMax); }
  /// Keeps the packet as a datagram to the peer's session. Requires room, and at most
  /// kPacketBytesMax.
  void push(std::uint64_t session, ByteSpan packet, bool is_management);
  /// Forgets all; numbers begin at 0 again.
  void reset();

  /// The datagram that is to be transmitted now. Valid until it is acknowledged.
  std::optional<ByteSpan> take_next(TimeNs now);
  bool has_next() const { return sent_ != end_; }
  /// The peer has all packets before `next`. `is_gap`: it has later ones, and misses that one.
  void on_acknowledge(std::uint32_t next, bool is_gap, TimeNs now);

  /// When packets are sent again for want of an acknowledgement.
  TimeNs deadline() const { return due_; }
  void on_time(TimeNs now);
  /// Packets that were sent again, ever.
  std::uint64_t repeated() const { return repeated_; }

 private:
  struct Entry {
    std::size_t size = 0;
    std::array<std::byte, kDatagramBytesMax> bytes;
  };
  using Entries = std::array<Entry, kMax>;
  /// Far above the time that a busy daemon needs to answer on one machine.
  static constexpr TimeNs kTimeoutMin = 50 * kMillisecond;
  /// For transports above give up a packet that stands still for half a second.
  static constexpr TimeNs kFirstTimeoutMax = 200 * kMillisecond;
  static constexpr TimeNs kTimeoutMax = kSecond;

  TimeNs timeout() const;
  void measure(TimeNs now);
  void go_back();

  std::unique_ptr<Entries> entries_;
  // Sequence numbers, modulo 2^32: first_ <= sent_ <= highest_ <= end_.
  std::uint32_t first_ = 0;    // Not acknowledged.
  std::uint32_t sent_ = 0;     // To be transmitted next,
  std::uint32_t highest_ = 0;  // and for the first time.
  std::uint32_t end_ = 0;
  TimeNs due_ = kNever;
  unsigned timeouts_ = 0;     // Since the last progress.
  TimeNs round_trip_ = 0;     // Smoothed.
  TimeNs timed_at_ = kNever;  // When the packet `timed_` was sent; kNever: none is timed.
  std::uint32_t timed_ = 0;
  std::uint64_t repeated_ = 0;
};

}  // namespace verbatim::fabric::trunk
