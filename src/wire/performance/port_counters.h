#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "wire/mad/fields.h"

namespace verbatim::wire {

/// Counters of a port (IBA 16.1.3.5). Each stops at its maximum; the data counters count words of 4
/// bytes. A Set writes the counters that `counter_select` and `counter_select2` select.
struct PortCounters {
  static constexpr std::size_t kSize = 44;
  static constexpr std::uint8_t kAllPorts = 255;
  static constexpr std::uint8_t kTransmitWaitSelect = 1;  // A bit of `counter_select2`.
  std::uint8_t port_select = 0;                           // kAllPorts: the sum over all ports.
  std::uint16_t counter_select = 0;
  std::uint16_t symbol_errors = 0;
  std::uint8_t link_error_recoveries = 0;
  std::uint8_t link_downed = 0;
  std::uint16_t receive_errors = 0;
  std::uint16_t receive_remote_physical_errors = 0;
  std::uint16_t receive_switch_relay_errors = 0;
  std::uint16_t transmit_discards = 0;
  std::uint8_t transmit_constraint_errors = 0;
  std::uint8_t receive_constraint_errors = 0;
  std::uint8_t counter_select2 = 0;
  std::uint8_t local_link_integrity_errors = 0;
  std::uint8_t excessive_buffer_overrun_errors = 0;
  std::uint16_t qp1_dropped = 0;
  std::uint16_t vl15_dropped = 0;
  std::uint32_t transmit_data = 0;
  std::uint32_t receive_data = 0;
  std::uint32_t transmit_packets = 0;
  std::uint32_t receive_packets = 0;
  std::uint32_t transmit_wait = 0;
  friend bool operator==(const PortCounters&, const PortCounters&) = default;
  static constexpr auto kFields = std::tuple(
      field(&PortCounters::port_select, 8), field(&PortCounters::counter_select, 16),
      field(&PortCounters::symbol_errors, 32), field(&PortCounters::link_error_recoveries, 48),
      field(&PortCounters::link_downed, 56), field(&PortCounters::receive_errors, 64),
      field(&PortCounters::receive_remote_physical_errors, 80),
      field(&PortCounters::receive_switch_relay_errors, 96),
      field(&PortCounters::transmit_discards, 112),
      field(&PortCounters::transmit_constraint_errors, 128),
      field(&PortCounters::receive_constraint_errors, 136),
      field(&PortCounters::counter_select2, 144),
      field(&PortCounters::local_link_integrity_errors, 152, 4),
      field(&PortCounters::excessive_buffer_overrun_errors, 156, 4),
      field(&PortCounters::qp1_dropped, 160), field(&PortCounters::vl15_dropped, 176),
      field(&PortCounters::transmit_data, 192), field(&PortCounters::receive_data, 224),
      field(&PortCounters::transmit_packets, 256), field(&PortCounters::receive_packets, 288),
      field(&PortCounters::transmit_wait, 320));
};

/// Bits of PortCounters::counter_select, in the order of the counters.
enum class CounterSelect : std::uint16_t {
  symbol_errors = 1u << 0,
  link_error_recoveries = 1u << 1,
  link_downed = 1u << 2,
  receive_errors = 1u << 3,
  receive_remote_physical_errors = 1u << 4,
  receive_switch_relay_errors = 1u << 5,
  transmit_discards = 1u << 6,
  transmit_constraint_errors = 1u << 7,
  receive_constraint_errors = 1u << 8,
  local_link_integrity_errors = 1u << 9,
  excessive_buffer_overrun_errors = 1u << 10,
  vl15_dropped = 1u << 11,
  transmit_data = 1u << 12,
  receive_data = 1u << 13,
  transmit_packets = 1u << 14,
  receive_packets = 1u << 15,
};

/// The same counters with 64 bits, which wrap (IBA 16.1.4). `counter_select2` selects error
/// counters, which exist if the agent's `capabilities2` has their bit.
struct PortCountersExtended {
  static constexpr std::size_t kSize = 184;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::uint32_t counter_select2 = 0;
  std::uint64_t transmit_data = 0;
  std::uint64_t receive_data = 0;
  std::uint64_t transmit_packets = 0;
  std::uint64_t receive_packets = 0;
  std::uint64_t unicast_transmit_packets = 0;
  std::uint64_t unicast_receive_packets = 0;
  std::uint64_t multicast_transmit_packets = 0;
  std::uint64_t multicast_receive_packets = 0;
  std::uint64_t symbol_errors = 0;
  std::uint64_t link_error_recoveries = 0;
  std::uint64_t link_downed = 0;
  std::uint64_t receive_errors = 0;
  std::uint64_t receive_remote_physical_errors = 0;
  std::uint64_t receive_switch_relay_errors = 0;
  std::uint64_t transmit_discards = 0;
  std::uint64_t transmit_constraint_errors = 0;
  std::uint64_t receive_constraint_errors = 0;
  std::uint64_t local_link_integrity_errors = 0;
  std::uint64_t excessive_buffer_overrun_errors = 0;
  std::uint64_t vl15_dropped = 0;
  std::uint64_t transmit_wait = 0;
  std::uint64_t qp1_dropped = 0;
  friend bool operator==(const PortCountersExtended&, const PortCountersExtended&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PortCountersExtended::port_select, 8),
                 field(&PortCountersExtended::counter_select, 16),
                 field(&PortCountersExtended::counter_select2, 32),
                 field(&PortCountersExtended::transmit_data, 64),
                 field(&PortCountersExtended::receive_data, 128),
                 field(&PortCountersExtended::transmit_packets, 192),
                 field(&PortCountersExtended::receive_packets, 256),
                 field(&PortCountersExtended::unicast_transmit_packets, 320),
                 field(&PortCountersExtended::unicast_receive_packets, 384),
                 field(&PortCountersExtended::multicast_transmit_packets, 448),
                 field(&PortCountersExtended::multicast_receive_packets, 512),
                 field(&PortCountersExtended::symbol_errors, 576),
                 field(&PortCountersExtended::link_error_recoveries, 640),
                 field(&PortCountersExtended::link_downed, 704),
                 field(&PortCountersExtended::receive_errors, 768),
                 field(&PortCountersExtended::receive_remote_physical_errors, 832),
                 field(&PortCountersExtended::receive_switch_relay_errors, 896),
                 field(&PortCountersExtended::transmit_discards, 960),
                 field(&PortCountersExtended::transmit_constraint_errors, 1024),
                 field(&PortCountersExtended::receive_constraint_errors, 1088),
                 field(&PortCountersExtended::local_link_integrity_errors, 1152),
                 field(&PortCountersExtended::excessive_buffer_overrun_errors, 1216),
                 field(&PortCountersExtended::vl15_dropped, 1280),
                 field(&PortCountersExtended::transmit_wait, 1344),
                 field(&PortCountersExtended::qp1_dropped, 1408));
};

}  // namespace verbatim::wire
