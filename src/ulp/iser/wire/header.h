#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

/// What iSER puts before each iSCSI message (RFC 7145, section 9.2), and into the connection's
/// private data (InfiniBand annex A12).
///
///     byte 0            1-3        4-7          8-15         16-19       20-27
///         +------------+----------+------------+------------+-----------+-----------+
///         | type, flags| reserved | write stag | write base | read stag | read base |
///         +------------+----------+------------+------------+-----------+-----------+
namespace verbatim::ulp::iser {

inline constexpr std::uint32_t kHeaderBytes = 28;

enum class Type : std::uint8_t { control = 1, hello = 2, hello_reply = 3 };

/// Memory of the initiator's.
struct Buffer {
  std::uint32_t stag = 0;
  std::uint64_t base = 0;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};
struct Header {
  Type type = Type::control;
  std::optional<Buffer> write;  // The target reads there what the initiator writes.
  std::optional<Buffer> read;
  friend bool operator==(const Header&, const Header&) = default;
};

/// None: a type that is not known.
std::optional<Header> decode(std::span<const std::byte, kHeaderBytes> bytes);
std::array<std::byte, kHeaderBytes> encode(const Header& header);

/// Byte 0 of the private data.
inline constexpr std::uint8_t kNoZeroBased = 0x80;
inline constexpr std::uint8_t kNoInvalidate = 0x40;

}  // namespace verbatim::ulp::iser
