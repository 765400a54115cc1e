#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "wire/error.h"

namespace verbatim::wire {

/// The header of a DDP segment (RFC 5041, section 4). A tagged segment is written to an STag and
/// offset at the peer; an untagged one is part of a message to a queue. DDP leaves some bytes to
/// its upper layer, RDMAP: a control byte and, in untagged segments, a word.
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
  bool last = false;               // Last segment of its message.
  std::uint8_t upper_control = 0;  // RDMAP's control byte.
  // Tagged segments only.
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;  // In bytes, from the region's base.
  // Untagged segments only.
  std::uint32_t upper_word = 0;  // RDMAP's word.
  std::uint32_t queue = 0;
  std::uint32_t message_number = 0;  // Number within the queue, from 1.
  std::uint32_t message_offset = 0;  // In bytes.

  constexpr std::size_t size() const { return tagged ? kTaggedSize : kUntaggedSize; }
  friend bool operator==(const Ddp&, const Ddp&) = default;
};

/// Returns true if the first byte says that the segment is tagged.
bool is_tagged(ByteSpan segment);
/// Checks length and version. The payload follows after `size()` bytes.
std::expected<Ddp, WireError> decode_ddp(ByteSpan segment);
/// Writes `size()` bytes to `out`, which must have room for them.
void encode(const Ddp& header, MutableByteSpan out);

}  // namespace verbatim::wire
