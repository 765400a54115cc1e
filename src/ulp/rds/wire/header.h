#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/types.h"

/// Messages of RDS 3.1 and 4.1 on an RC connection, big-endian. Byte offsets are here and in
/// connect.cpp alone.
namespace verbatim::ulp::rds {

/// A message of n bytes is cut into fragments of so many; each is one SEND: a header and its bytes.
inline constexpr std::uint32_t kFragmentBytes = 4096;
inline constexpr std::uint32_t kMessageBytesMax = 1 << 20;
inline constexpr std::uint32_t kFragmentsMax = kMessageBytesMax / kFragmentBytes;
/// One: an empty message is a header alone.
constexpr std::uint32_t fragments_of(std::uint32_t bytes) {
  return bytes == 0 ? 1 : (bytes + kFragmentBytes - 1) / kFragmentBytes;
}

enum class WireError : std::uint8_t {
  too_short,
  checksum,
  too_long,  // A message of more than kMessageBytesMax.
  version,   // Neither 3.1 nor 4.x.
};
const char* words_of(WireError error);

/// Memory that a message offers to its receiver: an R_Key, and where in the region to begin.
struct RemoteMemory {
  MemoryKey key{};
  std::uint32_t offset = 0;
  friend bool operator==(const RemoteMemory&, const RemoteMemory&) = default;
};

/// Begins each fragment; the fragments of a message differ in `acknowledged` and `credit` alone.
///
///     byte 0-7      8-15  16-19    20-21    22-23         24      25       26-29  30-31      32-47
///         +--------+-----+--------+--------+-------------+-------+--------+------+----------+------+
///         |sequence| ack | length | source | destination | flags | credit | pad  | checksum | ext.
///         |
///         +--------+-----+--------+--------+-------------+-------+--------+------+----------+------+
///
/// The checksum is IP's over the header; 0: unchecked. An extension is a type (1 byte) and its
/// value; type 0 ends them.
struct Header {
  static constexpr std::size_t kSize = 48;
  enum Flag : std::uint8_t { kMap = 1, kAsksForAck = 2, kIsRepeated = 4 };

  std::uint64_t sequence = 0;      // 0: a congestion map, or an acknowledgement alone.
  std::uint64_t acknowledged = 0;  // The last sequence that the sender has received.
  std::uint32_t bytes = 0;         // Of the whole message.
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t flags = 0;
  std::uint8_t credit = 0;
  std::optional<MemoryKey> used{};        // Extension 2: an RDMA operation with this key is over.
  std::optional<RemoteMemory> offered{};  // Extension 3.
  friend bool operator==(const Header&, const Header&) = default;
};
std::expected<Header, WireError> decode_header(ByteSpan fragment);
void encode(const Header& header, std::span<std::byte, Header::kSize> out);

}  // namespace verbatim::ulp::rds
