#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "wire/mad/fields.h"

namespace verbatim::wire {

/// Packets received on each virtual lane (IBA 16.1.4).
struct PortVlOperationalPackets {
  static constexpr std::size_t kSize = 36;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::array<std::uint16_t, 16> lanes{};
  friend bool operator==(const PortVlOperationalPackets&,
                         const PortVlOperationalPackets&) = default;
  static constexpr auto kFields = std::tuple(field(&PortVlOperationalPackets::port_select, 8),
                                             field(&PortVlOperationalPackets::counter_select, 16),
                                             field(&PortVlOperationalPackets::lanes, 32));
};

/// Words of 4 bytes received on each virtual lane (IBA 16.1.4).
struct PortVlOperationalData {
  static constexpr std::size_t kSize = 68;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::array<std::uint32_t, 16> lanes{};
  friend bool operator==(const PortVlOperationalData&, const PortVlOperationalData&) = default;
  static constexpr auto kFields = std::tuple(field(&PortVlOperationalData::port_select, 8),
                                             field(&PortVlOperationalData::counter_select, 16),
                                             field(&PortVlOperationalData::lanes, 32));
};

/// Number of times that a lane's credit update was overdue (IBA 16.1.4): 2 bits each.
struct PortVlTransmitFlowControlUpdateErrors {
  static constexpr std::size_t kSize = 8;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::array<std::uint8_t, 16> lanes{};
  friend bool operator==(const PortVlTransmitFlowControlUpdateErrors&,
                         const PortVlTransmitFlowControlUpdateErrors&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PortVlTransmitFlowControlUpdateErrors::port_select, 8),
                 field(&PortVlTransmitFlowControlUpdateErrors::counter_select, 16),
                 field(&PortVlTransmitFlowControlUpdateErrors::lanes, 32, 2));
};

/// Ticks for which each virtual lane had data but sent none (IBA 16.1.4).
struct PortVlTransmitWaitCounters {
  static constexpr std::size_t kSize = 36;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::array<std::uint16_t, 16> lanes{};
  friend bool operator==(const PortVlTransmitWaitCounters&,
                         const PortVlTransmitWaitCounters&) = default;
  static constexpr auto kFields = std::tuple(field(&PortVlTransmitWaitCounters::port_select, 8),
                                             field(&PortVlTransmitWaitCounters::counter_select, 16),
                                             field(&PortVlTransmitWaitCounters::lanes, 32));
};

/// Packets of each virtual lane that were marked as congested (annex A10).
struct SwitchPortVlCongestion {
  static constexpr std::size_t kSize = 36;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::array<std::uint16_t, 16> lanes{};
  friend bool operator==(const SwitchPortVlCongestion&, const SwitchPortVlCongestion&) = default;
  static constexpr auto kFields = std::tuple(field(&SwitchPortVlCongestion::port_select, 8),
                                             field(&SwitchPortVlCongestion::counter_select, 16),
                                             field(&SwitchPortVlCongestion::lanes, 32));
};

/// Words of 4 bytes of each service level: PortXmitDataSL and PortRcvDataSL (annex A13).
struct PortDataSl {
  static constexpr std::size_t kSize = 68;
  std::uint8_t port_select = 0;
  std::uint16_t counter_select = 0;
  std::array<std::uint32_t, 16> service_levels{};
  friend bool operator==(const PortDataSl&, const PortDataSl&) = default;
  static constexpr auto kFields =
      std::tuple(field(&PortDataSl::port_select, 8), field(&PortDataSl::counter_select, 16),
                 field(&PortDataSl::service_levels, 32));
};

}  // namespace verbatim::wire
