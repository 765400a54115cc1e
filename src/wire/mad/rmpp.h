#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "wire/mad/fields.h"
#include "wire/mad/mad.h"

namespace verbatim::wire {

enum class RmppType : std::uint8_t { data = 1, ack = 2, stop = 3, abort = 4 };

/// Why a transfer was stopped or aborted (IBA 13.6.2.1).
enum class RmppStatus : std::uint8_t {
  normal = 0,
  no_resources = 1,  // The one status of a STOP.
  total_time_exceeded = 118,
  inconsistent_lengths = 119,
  bad_segment_number = 120,
  bad_type = 121,
  window_below_segment = 122,
  segment_beyond_window = 123,
  bad_status = 124,
  unsupported_version = 125,
  too_many_retries = 126,
  unspecified = 127,
};

/// Reliable multi-packet protocol: what a MAD of a class that uses it has behind the common header
/// (IBA 13.6.2.1).
///
///     byte   24        25      26 (5 bits)  26 (3)  27       28-31     32-35
///          +---------+------+------------+-------+--------+---------+------------------------+
///          | version | type | response   | flags | status | segment | payload length, or the |
///          |         |      | time       |       |        |         | new window's last      |
///          +---------+------+------------+-------+--------+---------+------------------------+
///
/// The payload length counts from byte 36: the headers of the class are in it. Of the first
/// segment it is that of all segments, 0 if unknown; of the last one its own.
struct RmppHeader {
  static constexpr std::size_t kSize = 12;
  static constexpr std::uint8_t kVersion = 1;
  std::uint8_t version = kVersion;
  RmppType type{};
  std::uint8_t response_time = 0x1f;  // 4.096 us * 2^n; all ones: not told.
  bool is_last = false;
  bool is_first = false;
  bool is_active = false;  // Else the MAD is a message by itself, and the header means nothing.
  RmppStatus status{};
  std::uint32_t segment = 0;
  std::uint32_t length = 0;  // ACK: the window's last segment.
  friend bool operator==(const RmppHeader&, const RmppHeader&) = default;
  static constexpr auto kFields =
      std::tuple(field(&RmppHeader::version, 0), field(&RmppHeader::type, 8),
                 field(&RmppHeader::response_time, 16, 5), field(&RmppHeader::is_last, 21, 1),
                 field(&RmppHeader::is_first, 22, 1), field(&RmppHeader::is_active, 23, 1),
                 field(&RmppHeader::status, 24), field(&RmppHeader::segment, 32),
                 field(&RmppHeader::length, 64));
};

/// Headers of a segment, its class's included, in a class whose messages may have several; nothing
/// for other classes. The rest of the 256 bytes is data.
constexpr std::optional<std::size_t> rmpp_header_bytes(MadClass management_class) {
  constexpr std::uint8_t kDeviceManagement = 0x06;
  constexpr std::uint8_t kDeviceAdministration = 0x10;
  constexpr std::uint8_t kBootManagement = 0x12;
  const auto value = static_cast<std::uint8_t>(management_class);
  if (management_class == MadClass::subnet_administration) return 56;
  if (value == kDeviceManagement || value == kDeviceAdministration || value == kBootManagement) {
    return 64;
  }
  if (value >= 0x30 && value <= 0x4f) return 40;  // Vendor classes with an OUI.
  return std::nullopt;
}

inline RmppHeader decode_rmpp_header(std::span<const std::byte, kMadBytes> mad) {
  return decode<RmppHeader>(mad.subspan<MadHeader::kSize, RmppHeader::kSize>());
}
inline void encode(const RmppHeader& header, std::span<std::byte, kMadBytes> mad) {
  encode(header, mad.subspan<MadHeader::kSize, RmppHeader::kSize>());
}

}  // namespace verbatim::wire
