#include "fabric/daemon/hosts/host_counters.h"

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace verbatim::fabric {

std::vector<HostFile> counter_files(unsigned port, const mad::PortCounterValues& values) {
  const auto named = std::to_array<std::pair<const char*, std::uint64_t>>({
      {"port_xmit_data", values.transmit_data},  // In words of 4 bytes, as the next one.
      {"port_rcv_data", values.receive_data},
      {"port_xmit_packets", values.transmit_packets},
      {"port_rcv_packets", values.receive_packets},
      {"unicast_xmit_packets", values.unicast_transmit_packets()},
      {"unicast_rcv_packets", values.unicast_receive_packets()},
      {"multicast_xmit_packets", values.multicast_transmit_packets},
      {"multicast_rcv_packets", values.multicast_receive_packets},
      {"port_xmit_wait", values.transmit_wait},
      {"symbol_error", values.symbol_errors},
      {"link_error_recovery", values.link_error_recoveries},
      {"link_downed", values.link_downed},
      {"port_rcv_errors", values.receive_errors()},
      {"port_rcv_remote_physical_errors", values.receive_remote_physical_errors},
      {"port_rcv_switch_relay_errors", values.switch_relay_errors()},
      {"port_xmit_discards", values.transmit_discards()},
      {"port_xmit_constraint_errors", values.transmit_constraint_errors},
      {"port_rcv_constraint_errors", values.receive_constraint_errors},
      {"local_link_integrity_errors", values.local_link_integrity_errors},
      {"excessive_buffer_overrun_errors", values.excessive_buffer_overrun_errors},
      {"VL15_dropped", values.vl15_dropped},
  });
  std::vector<HostFile> files;
  for (const auto& [name, value] : named) {
    files.push_back({fmt::format("ports/{}/counters/{}", port, name), std::to_string(value)});
  }
  return files;
}

}  // namespace verbatim::fabric
