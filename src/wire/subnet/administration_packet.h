#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "wire/error.h"
#include "wire/mad/fields.h"
#include "wire/mad/mad.h"

namespace verbatim::wire {

/// Attributes of subnet administration that Verbatim asks for (IBA 15.2.5).
enum class AdministrationAttribute : std::uint16_t {
  service_record = 0x0031,
  path_record = 0x0035,
  multicast_record = 0x0038,
};

inline constexpr std::size_t kAdministrationDataBytes = 200;

/// A datagram of subnet administration that is a message by itself (IBA 15.2.1.1): it is not one of
/// RMPP's segments.
///
///     byte   0-23         24-35  36-43    44-47               48-55            56-255
///          +------------+------+--------+-------------------+----------------+-----------+
///          | MAD header | RMPP | SM Key | attribute offset, | component mask | attribute |
///          |            |      |        | reserved          |                |           |
///          +------------+------+--------+-------------------+----------------+-----------+
struct AdministrationPacket {
  static constexpr std::size_t kSize = kMadBytes;
  static constexpr std::uint8_t kClassVersion = 2;
  MadMethod method{};
  std::uint16_t status = 0;  // Its upper byte is the administrator's (IBA 15.2.6).
  std::uint64_t transaction = 0;
  AdministrationAttribute attribute{};
  std::uint64_t components = 0;  // Bit i: component i of the attribute counts.
  std::array<std::byte, kAdministrationDataBytes> data{};
  friend bool operator==(const AdministrationPacket&, const AdministrationPacket&) = default;
};

/// SubnAdmGetTableResp, its segments put together (mad/rmpp): the headers of a packet, then records
/// of equal size, whose unit in the header (`attribute offset`) is 8 bytes.
struct AdministrationTable {
  std::uint16_t status = 0;
  AdministrationAttribute attribute{};
  std::size_t record_bytes = 0;
  ByteSpan records;  // Borrowed from the message; whole ones.
};

/// Checks length, versions, class and method. Records without a size are refused.
std::expected<AdministrationTable, WireError> decode_administration_table(ByteSpan message);

/// Checks length, versions and class, and that RMPP is not active. Accepts any method and
/// attribute.
std::expected<AdministrationPacket, WireError> decode_administration_packet(ByteSpan mad);
void encode(const AdministrationPacket& packet,
            std::span<std::byte, AdministrationPacket::kSize> out);

/// Decodes the packet's data as attribute `T`.
template <Fields T>
T data_as(const AdministrationPacket& packet) {
  return decode<T>(std::span(packet.data).template first<T::kSize>());
}
template <Fields T>
void set_data(AdministrationPacket& packet, const T& attribute) {
  packet.data.fill(std::byte{0});
  encode(attribute, std::span(packet.data).template first<T::kSize>());
}

}  // namespace verbatim::wire
