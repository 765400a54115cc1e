#pragma once

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

/// Attributes of performance management (IBA 16.1.3, 16.1.4, annex A13).
enum class PerformanceAttribute : std::uint16_t {
  class_port_info = 0x0001,
  port_samples_control = 0x0010,
  port_samples_result = 0x0011,
  port_counters = 0x0012,
  port_receive_error_details = 0x0015,
  port_transmit_discard_details = 0x0016,
  port_operational_receive_counters = 0x0017,
  port_flow_control_counters = 0x0018,
  port_vl_operational_packets = 0x0019,
  port_vl_operational_data = 0x001a,
  port_vl_transmit_flow_control_update_errors = 0x001b,
  port_vl_transmit_wait_counters = 0x001c,
  port_counters_extended = 0x001d,
  port_extended_speeds_counters = 0x001f,
  switch_port_vl_congestion = 0x0030,
  port_transmit_data_sl = 0x0036,
  port_receive_data_sl = 0x0037,
};

inline constexpr std::size_t kPerformanceDataBytes = 192;

/// Performance management datagram (IBA 16.1.1): a MAD of QP1.
///
///     byte   0-23         24-63  64-255
///          +------------+------+-------+
///          | MAD header | rsvd | data  |
///          +------------+------+-------+
struct PerformancePacket {
  static constexpr std::size_t kSize = kMadBytes;
  static constexpr std::uint8_t kClassVersion = 1;
  MadMethod method{};
  MadStatus status{};
  std::uint64_t transaction = 0;
  PerformanceAttribute attribute{};
  std::uint32_t modifier = 0;
  std::array<std::byte, kPerformanceDataBytes> data{};
  friend bool operator==(const PerformancePacket&, const PerformancePacket&) = default;
};

/// Checks length, versions and class. Accepts any method and attribute.
std::expected<PerformancePacket, WireError> decode_performance_packet(ByteSpan mad);
void encode(const PerformancePacket& packet, std::span<std::byte, PerformancePacket::kSize> out);

/// Decodes the packet's data as attribute `T`.
template <Fields T>
T data_as(const PerformancePacket& packet) {
  return decode<T>(std::span(packet.data).template first<T::kSize>());
}
template <Fields T>
void set_data(PerformancePacket& packet, const T& attribute) {
  packet.data.fill(std::byte{0});
  encode(attribute, std::span(packet.data).template first<T::kSize>());
}

}  // namespace verbatim::wire
