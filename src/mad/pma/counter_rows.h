#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "mad/pma/port_counter_source.h"
#include "wire/performance/counter_details.h"
#include "wire/performance/lane_counters.h"
#include "wire/performance/port_counters.h"

/// Which count stands where in which attribute, and by which bit of CounterSelect a Set names it.
namespace verbatim::mad {

/// `counted` is a member of PortCounterValues, or a member function that sums some. An array has
/// one bit an element, from `select` on.
template <typename Attribute, typename Shown, typename Counted>
struct CounterRow {
  Shown Attribute::* shown;
  Counted counted;
  unsigned select;
  unsigned bits;
};

template <typename T>
inline constexpr std::size_t kElementsOf = 1;
template <typename T, std::size_t N>
inline constexpr std::size_t kElementsOf<std::array<T, N>> = N;

template <typename Attribute, typename Shown, typename Counted>
constexpr auto row(Shown Attribute::* shown, Counted counted, unsigned select,
                   unsigned bits = 8 * sizeof(Shown) / kElementsOf<Shown>) {
  return CounterRow<Attribute, Shown, Counted>{shown, counted, select, bits};
}

template <typename Attribute>
struct CounterRows;
/// Of the attribute that has most.
inline constexpr std::size_t kCountersMax = 22;

/// Bits from 16 on are of CounterSelect2.
template <>
struct CounterRows<wire::PortCounters> {
  using A = wire::PortCounters;
  using V = PortCounterValues;
  static constexpr auto kRows = std::tuple(
      row(&A::symbol_errors, &V::symbol_errors, 0),
      row(&A::link_error_recoveries, &V::link_error_recoveries, 1),
      row(&A::link_downed, &V::link_downed, 2), row(&A::receive_errors, &V::receive_errors, 3),
      row(&A::receive_remote_physical_errors, &V::receive_remote_physical_errors, 4),
      row(&A::receive_switch_relay_errors, &V::switch_relay_errors, 5),
      row(&A::transmit_discards, &V::transmit_discards, 6),
      row(&A::transmit_constraint_errors, &V::transmit_constraint_errors, 7),
      row(&A::receive_constraint_errors, &V::receive_constraint_errors, 8),
      row(&A::local_link_integrity_errors, &V::local_link_integrity_errors, 9, 4),
      row(&A::excessive_buffer_overrun_errors, &V::excessive_buffer_overrun_errors, 10, 4),
      row(&A::vl15_dropped, &V::vl15_dropped, 11), row(&A::transmit_data, &V::transmit_data, 12),
      row(&A::receive_data, &V::receive_data, 13),
      row(&A::transmit_packets, &V::transmit_packets, 14),
      row(&A::receive_packets, &V::receive_packets, 15),
      row(&A::transmit_wait, &V::transmit_wait, 16), row(&A::qp1_dropped, &V::qp1_dropped, 17));
};

template <>
struct CounterRows<wire::PortCountersExtended> {
  using A = wire::PortCountersExtended;
  using V = PortCounterValues;
  static constexpr auto kRows = std::tuple(
      row(&A::transmit_data, &V::transmit_data, 0), row(&A::receive_data, &V::receive_data, 1),
      row(&A::transmit_packets, &V::transmit_packets, 2),
      row(&A::receive_packets, &V::receive_packets, 3),
      row(&A::unicast_transmit_packets, &V::unicast_transmit_packets, 4),
      row(&A::unicast_receive_packets, &V::unicast_receive_packets, 5),
      row(&A::multicast_transmit_packets, &V::multicast_transmit_packets, 6),
      row(&A::multicast_receive_packets, &V::multicast_receive_packets, 7),
      row(&A::symbol_errors, &V::symbol_errors, 16),
      row(&A::link_error_recoveries, &V::link_error_recoveries, 17),
      row(&A::link_downed, &V::link_downed, 18), row(&A::receive_errors, &V::receive_errors, 19),
      row(&A::receive_remote_physical_errors, &V::receive_remote_physical_errors, 20),
      row(&A::receive_switch_relay_errors, &V::switch_relay_errors, 21),
      row(&A::transmit_discards, &V::transmit_discards, 22),
      row(&A::transmit_constraint_errors, &V::transmit_constraint_errors, 23),
      row(&A::receive_constraint_errors, &V::receive_constraint_errors, 24),
      row(&A::local_link_integrity_errors, &V::local_link_integrity_errors, 25),
      row(&A::excessive_buffer_overrun_errors, &V::excessive_buffer_overrun_errors, 26),
      row(&A::vl15_dropped, &V::vl15_dropped, 27), row(&A::transmit_wait, &V::transmit_wait, 28),
      row(&A::qp1_dropped, &V::qp1_dropped, 29));
};

template <>
struct CounterRows<wire::PortReceiveErrorDetails> {
  using A = wire::PortReceiveErrorDetails;
  using V = PortCounterValues;
  static constexpr auto kRows =
      std::tuple(row(&A::local_physical_errors, &V::local_physical_errors, 0),
                 row(&A::malformed_packets, &V::malformed_packets, 1),
                 row(&A::buffer_overruns, &V::buffer_overruns, 2),
                 row(&A::dlid_mapping_errors, &V::dlid_mapping_errors, 3),
                 row(&A::vl_mapping_errors, &V::vl_mapping_errors, 4),
                 row(&A::looping_errors, &V::looping_errors, 5));
};

template <>
struct CounterRows<wire::PortTransmitDiscardDetails> {
  using A = wire::PortTransmitDiscardDetails;
  using V = PortCounterValues;
  static constexpr auto kRows =
      std::tuple(row(&A::inactive, &V::inactive_discards, 0),
                 row(&A::neighbor_mtu, &V::neighbor_mtu_discards, 1),
                 row(&A::switch_lifetime_limit, &V::lifetime_discards, 2),
                 row(&A::switch_head_of_queue_limit, &V::head_of_queue_discards, 3));
};

template <>
struct CounterRows<wire::PortOperationalReceiveCounters> {
  using A = wire::PortOperationalReceiveCounters;
  using V = PortCounterValues;
  static constexpr auto kRows =
      std::tuple(row(&A::packets, &V::receive_packets, 0), row(&A::data, &V::receive_data, 1));
};

template <>
struct CounterRows<wire::PortFlowControlCounters> {
  using A = wire::PortFlowControlCounters;
  using V = PortCounterValues;
  static constexpr auto kRows = std::tuple(row(&A::transmitted, &V::flow_packets_transmitted, 0),
                                           row(&A::received, &V::flow_packets_received, 1));
};

template <>
struct CounterRows<wire::PortVlOperationalPackets> {
  static constexpr auto kRows = std::tuple(
      row(&wire::PortVlOperationalPackets::lanes, &PortCounterValues::lane_receive_packets, 0));
};

template <>
struct CounterRows<wire::PortVlOperationalData> {
  static constexpr auto kRows = std::tuple(
      row(&wire::PortVlOperationalData::lanes, &PortCounterValues::lane_receive_data, 0));
};

template <>
struct CounterRows<wire::PortVlTransmitFlowControlUpdateErrors> {
  static constexpr auto kRows = std::tuple(row(&wire::PortVlTransmitFlowControlUpdateErrors::lanes,
                                               &PortCounterValues::lane_flow_update_errors, 0, 2));
};

template <>
struct CounterRows<wire::PortVlTransmitWaitCounters> {
  static constexpr auto kRows = std::tuple(
      row(&wire::PortVlTransmitWaitCounters::lanes, &PortCounterValues::lane_transmit_wait, 0));
};

template <>
struct CounterRows<wire::SwitchPortVlCongestion> {
  static constexpr auto kRows = std::tuple(
      row(&wire::SwitchPortVlCongestion::lanes, &PortCounterValues::lane_congested_packets, 0));
};

/// PortXmitDataSL and PortRcvDataSL have one layout, but count different packets.
struct TransmittedDataSl {
  static constexpr auto kRows = std::tuple(
      row(&wire::PortDataSl::service_levels, &PortCounterValues::level_transmit_data, 0));
};
struct ReceivedDataSl {
  static constexpr auto kRows =
      std::tuple(row(&wire::PortDataSl::service_levels, &PortCounterValues::level_receive_data, 0));
};

}  // namespace verbatim::mad
