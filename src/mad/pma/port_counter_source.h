#pragma once

#include <array>
#include <cstdint>

#include "wire/performance/port_samples.h"

namespace verbatim::mad {

/// As PortSamplesControl says it. Switches have ticks of some nanoseconds, whose 32 bits are full
/// after seconds of congestion; these last for 73 minutes.
inline constexpr std::uint8_t kTransmitWaitTick = 255;
inline constexpr std::uint64_t kTransmitWaitTickNs =
    wire::PortSamplesControl::kTickBaseNs * (kTransmitWaitTick + 1);

/// What a port has counted since its fabric was started (IBA 16.1.3.5, 16.1.4). Data in words of 4
/// bytes.
struct PortCounterValues {
  using Lanes = std::array<std::uint64_t, 16>;  // By virtual lane, or by service level.

  std::uint64_t transmit_data = 0;
  std::uint64_t receive_data = 0;
  std::uint64_t transmit_packets = 0;
  std::uint64_t receive_packets = 0;
  std::uint64_t multicast_transmit_packets = 0;  // Among the above.
  std::uint64_t multicast_receive_packets = 0;
  std::uint64_t transmit_wait = 0;  // Ticks of kTransmitWaitTickNs.

  std::uint64_t symbol_errors = 0;
  std::uint64_t link_error_recoveries = 0;
  std::uint64_t link_downed = 0;
  std::uint64_t receive_remote_physical_errors = 0;
  std::uint64_t transmit_constraint_errors = 0;
  std::uint64_t receive_constraint_errors = 0;
  std::uint64_t local_link_integrity_errors = 0;
  std::uint64_t excessive_buffer_overrun_errors = 0;
  std::uint64_t qp1_dropped = 0;
  std::uint64_t vl15_dropped = 0;

  // Receive errors.
  std::uint64_t local_physical_errors = 0;
  std::uint64_t malformed_packets = 0;
  std::uint64_t buffer_overruns = 0;
  // Switch relay errors.
  std::uint64_t dlid_mapping_errors = 0;
  std::uint64_t vl_mapping_errors = 0;
  std::uint64_t looping_errors = 0;
  // Transmit discards.
  std::uint64_t inactive_discards = 0;
  std::uint64_t neighbor_mtu_discards = 0;
  std::uint64_t lifetime_discards = 0;
  std::uint64_t head_of_queue_discards = 0;

  std::uint64_t flow_packets_transmitted = 0;
  std::uint64_t flow_packets_received = 0;
  Lanes lane_receive_packets{};
  Lanes lane_receive_data{};
  Lanes lane_flow_update_errors{};
  Lanes lane_transmit_wait{};
  Lanes lane_congested_packets{};
  Lanes level_transmit_data{};
  Lanes level_receive_data{};

  std::uint64_t receive_errors() const {
    return local_physical_errors + malformed_packets + buffer_overruns;
  }
  std::uint64_t switch_relay_errors() const {
    return dlid_mapping_errors + vl_mapping_errors + looping_errors;
  }
  std::uint64_t transmit_discards() const {
    return inactive_discards + neighbor_mtu_discards + lifetime_discards + head_of_queue_discards;
  }
  std::uint64_t unicast_transmit_packets() const {
    return transmit_packets - multicast_transmit_packets;
  }
  std::uint64_t unicast_receive_packets() const {
    return receive_packets - multicast_receive_packets;
  }
};

/// Where the counts of a node's ports come from.
class PortCounterSource {
 public:
  virtual PortCounterValues counters(std::uint8_t port) const = 0;

 protected:
  ~PortCounterSource() = default;
};

}  // namespace verbatim::mad
