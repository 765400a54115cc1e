#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "wire/mad/fields.h"

namespace verbatim::wire {

/// The counters that PortCounters::receive_errors and receive_switch_relay_errors sum up (IBA
/// 16.1.4).
struct PortReceiveErrorDetails {
  static constexpr std::size_t kSize = 16;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::uint16_t local_physical_errors = 0;
  std::uint16_t malformed_packets = 0;
  std::uint16_t buffer_overruns = 0;
  std::uint16_t dlid_mapping_errors = 0;
  std::uint16_t vl_mapping_errors = 0;
  std::uint16_t looping_errors = 0;
  friend bool operator==(const PortReceiveErrorDetails&, const PortReceiveErrorDetails&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PortReceiveErrorDetails::port_select, 8),
                 field(&PortReceiveErrorDetails::counter_select, 16),
                 field(&PortReceiveErrorDetails::local_physical_errors, 32),
                 field(&PortReceiveErrorDetails::malformed_packets, 48),
                 field(&PortReceiveErrorDetails::buffer_overruns, 64),
                 field(&PortReceiveErrorDetails::dlid_mapping_errors, 80),
                 field(&PortReceiveErrorDetails::vl_mapping_errors, 96),
                 field(&PortReceiveErrorDetails::looping_errors, 112));
};

/// The counters that PortCounters::transmit_discards sums up (IBA 16.1.4).
struct PortTransmitDiscardDetails {
  static constexpr std::size_t kSize = 12;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::uint16_t inactive = 0;
  std::uint16_t neighbor_mtu = 0;
  std::uint16_t switch_lifetime_limit = 0;
  std::uint16_t switch_head_of_queue_limit = 0;
  friend bool operator==(const PortTransmitDiscardDetails&,
                         const PortTransmitDiscardDetails&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PortTransmitDiscardDetails::port_select, 8),
                 field(&PortTransmitDiscardDetails::counter_select, 16),
                 field(&PortTransmitDiscardDetails::inactive, 32),
                 field(&PortTransmitDiscardDetails::neighbor_mtu, 48),
                 field(&PortTransmitDiscardDetails::switch_lifetime_limit, 64),
                 field(&PortTransmitDiscardDetails::switch_head_of_queue_limit, 80));
};

/// Packets and words received for this port (IBA 16.1.4).
struct PortOperationalReceiveCounters {
  static constexpr std::size_t kSize = 12;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::uint32_t packets = 0;
  std::uint32_t data = 0;
  friend bool operator==(const PortOperationalReceiveCounters&,
                         const PortOperationalReceiveCounters&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PortOperationalReceiveCounters::port_select, 8),
                 field(&PortOperationalReceiveCounters::counter_select, 16),
                 field(&PortOperationalReceiveCounters::packets, 32),
                 field(&PortOperationalReceiveCounters::data, 64));
};

/// Flow control packets (IBA 16.1.4).
struct PortFlowControlCounters {
  static constexpr std::size_t kSize = 12;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::uint32_t transmitted = 0;
  std::uint32_t received = 0;
  friend bool operator==(const PortFlowControlCounters&, const PortFlowControlCounters&) = default;
  static constexpr auto kFields = std::tuple(field(&PortFlowControlCounters::port_select, 8),
                                             field(&PortFlowControlCounters::counter_select, 16),
                                             field(&PortFlowControlCounters::transmitted, 32),
                                             field(&PortFlowControlCounters::received, 64));
};

}  // namespace verbatim::wire
