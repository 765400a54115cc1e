#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "wire/error.h"

namespace verbatim::wire {

/// The header of a DDP segment (RFC 5041, section 4). A tagged segment names the peer's memory; an
/// untagged one is a part of a message into a buffer of a queue. The bytes that DDP leaves to its
/// upper layer are RDMAP's: a control byte and, untagged, a word.
///
///     byte   0        1        2-5      6-13            (tagged)
///          +--------+--------+--------+--------------+
///          |1L0000VV| RDMAP  | STag   | tagged       |
///          |        |        |        | offset       |
///          +--------+--------+--------+--------------+
///     byte   0        1        2-5        6-9     10-13    14-17    (untagged)
///          +--------+--------+----------+-------+--------+---------+
///          |0L0000VV| RDMAP  | RDMAP    | queue | message| message |
///          |        |        |          | number| number | offset  |
///          +--------+--------+----------+-------+--------+---------+
struct Ddp {
  static constexpr std::size_t kTaggedSize = 14;
  static constexpr std::size_t kUntaggedSize = 18;
  static constexpr std::uint8_t kVersion = 1;
  bool tagged = false;
  bool last = false;               // Of its message.
  std::uint8_t upper_control = 0;  // RDMAP's.
  // Tagged.
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;  // Bytes; what it counts from is the region's matter.
  // Untagged.
  std::uint32_t upper_word = 0;  // RDMAP's.
  std::uint32_t queue = 0;
  std::uint32_t message_number = 0;  // Of the queue, from 1.
  std::uint32_t message_offset = 0;  // Bytes.

  constexpr std::size_t size() const { return tagged ? kTaggedSize : kUntaggedSize; }
  friend bool operator==(const Ddp&, const Ddp&) = default;
};

/// Whether a segment, as far as it can be read, is a tagged one.
bool is_tagged(ByteSpan segment);
/// The payload is what follows `size()` bytes. Checks length and version.
std::expected<Ddp, WireError> decode_ddp(ByteSpan segment);
/// Writes `size()` bytes; `out` has as many at least.
void encode(const Ddp& header, MutableByteSpan out);

}  // namespace verbatim::wire
