#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "wire/error.h"

namespace verbatim::wire {

/// A management datagram (IBA volume 1, section 13.4): a header and 232 bytes that depend on the
/// management class. It has 256 bytes and is the payload of a UD packet to QP0 or QP1.
inline constexpr std::size_t kMadBytes = 256;

/// Management classes (IBA 13.4.4, table 109).
enum class MadClass : std::uint8_t {
  subnet_management = 0x01,  // LID routed.
  subnet_administration = 0x03,
  performance_management = 0x04,
  device_management = 0x06,
  communication_management = 0x07,
  directed_route_subnet_management = 0x81,
};

/// Methods (IBA 13.4.5, 15.2.2). `send` needs no response. A response has the highest bit set,
/// except `trap_repress`.
enum class MadMethod : std::uint8_t {
  get = 0x01,
  set = 0x02,
  send = 0x03,
  trap = 0x05,
  report = 0x06,
  trap_repress = 0x07,
  get_table = 0x12,
  get_trace_table = 0x13,
  get_multi = 0x14,
  remove = 0x15,  // SubnAdmDelete.
  get_response = 0x81,
  report_response = 0x86,
  get_table_response = 0x92,
  get_multi_response = 0x94,
  remove_response = 0x95,
};

/// Status of a response (IBA 13.4.7). Bits 2 to 4 say why a request is refused.
enum class MadStatus : std::uint16_t {
  ok = 0,
  busy = 0x0001,
  redirect = 0x0002,
  bad_version = 0x0004,
  unsupported_method = 0x0008,
  unsupported_attribute = 0x000c,
  invalid_value = 0x001c,
};

/// The MAD's common header (IBA 13.4.2).
///
///     byte   0         1       2         3        4-5     6-7        8-15
///          +---------+-------+---------+--------+--------+----------+----------------+
///          | base    | mgmt  | class   | method | status | class    | transaction id |
///          | version | class | version |        |        | specific |                |
///          +---------+-------+---------+--------+--------+----------+----------------+
///     byte   16-17       18-19   20-23
///          +-----------+-------+--------------------+
///          | attribute | rsvd  | attribute modifier |
///          +-----------+-------+--------------------+
struct MadHeader {
  static constexpr std::size_t kSize = 24;
  static constexpr std::uint8_t kBaseVersion = 1;
  MadClass management_class{};
  std::uint8_t class_version = 1;
  MadMethod method{};
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction = 0;
  std::uint16_t attribute = 0;
  std::uint32_t modifier = 0;
  friend bool operator==(const MadHeader&, const MadHeader&) = default;
};

inline constexpr std::size_t kMadDataBytes = kMadBytes - MadHeader::kSize;

/// Checks the MAD's length and base version. Class, method and attribute may be unknown.
inline std::expected<MadHeader, WireError> decode_mad_header(ByteSpan mad) {
  if (mad.size() != kMadBytes) return std::unexpected(WireError::mad_length);
  const std::byte* at = mad.data();
  if (at[0] != std::byte{MadHeader::kBaseVersion}) {
    return std::unexpected(WireError::mad_version);  // IBA C13-4.
  }
  return MadHeader{
      .management_class = static_cast<MadClass>(at[1]),
      .class_version = std::to_integer<std::uint8_t>(at[2]),
      .method = static_cast<MadMethod>(at[3]),
      .status = load_be<std::uint16_t>(at + 4),
      .class_specific = load_be<std::uint16_t>(at + 6),
      .transaction = load_be<std::uint64_t>(at + 8),
      .attribute = load_be<std::uint16_t>(at + 16),
      .modifier = load_be<std::uint32_t>(at + 20),
  };
}

inline void encode(const MadHeader& header, std::span<std::byte, MadHeader::kSize> out) {
  out[0] = std::byte{MadHeader::kBaseVersion};
  out[1] = static_cast<std::byte>(header.management_class);
  out[2] = std::byte{header.class_version};
  out[3] = static_cast<std::byte>(header.method);
  store_be(&out[4], header.status);
  store_be(&out[6], header.class_specific);
  store_be(&out[8], header.transaction);
  store_be(&out[16], header.attribute);
  store_be(&out[18], std::uint16_t{0});
  store_be(&out[20], header.modifier);
}

}  // namespace verbatim::wire
