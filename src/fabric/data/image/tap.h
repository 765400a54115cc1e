#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/time.h"
#include "fabric/data/image/records.h"

/// Packets on links that are watched, for those who look: a ring in the image. Movers never wait:
/// who reads too slowly loses packets.
namespace verbatim::fabric {

inline constexpr std::size_t kTapCells = 2048;

struct TappedPacket {
  TimeNs at = 0;  // The fabric's clock.
  LinkIndex link = 0;
  std::uint16_t bytes = 0;  // LRH to ICRC.
  std::uint8_t lane = 0;
  std::uint8_t is_damaged = 0;
};

struct alignas(64) TapCell {
  /// Of the packet that is number n on the tap: 2n + 1 while it is written, then 2n + 2.
  std::atomic<std::uint64_t> turn;
  TappedPacket packet;
  std::array<std::byte, kPacketBytesMax> content;
};

struct Tap {
  alignas(64) std::atomic<std::uint64_t> next;  // Packets, ever.
  std::array<TapCell, kTapCells> cells;

  /// A writer that dies leaves a packet that does not come; the next one takes its cell.
  void add(const TappedPacket& packet, ByteSpan content);
};

/// Reads a tap from now on.
class TapReader {
 public:
  explicit TapReader(const Tap& tap) : tap_(tap), next_(tap.next.load()) {}

  struct Read {
    TappedPacket packet;
    ByteSpan content;  // Valid until the next call.
  };
  /// Nothing: none has come yet.
  std::optional<Read> next(TimeNs now);
  std::uint64_t lost() const { return lost_; }

 private:
  /// So long is waited for a packet that others have overtaken.
  static constexpr TimeNs kPatience = 100 * kMillisecond;
  const Tap& tap_;
  std::uint64_t next_;
  std::uint64_t lost_ = 0;
  TimeNs waits_since_ = 0;
  std::array<std::byte, kPacketBytesMax> content_{};
};

}  // namespace verbatim::fabric
