#pragma once

#include <cstdint>
#include <vector>

#include "agent/protocol/device_files.h"

/// The totals of a node's port, for /sys/class/infiniband/verbatim0/ports/1/counters.
namespace verbatim::agent {

/// Packets as `observe::PortCounters` counts them. The direct path sends none.
struct PortTotals {
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t packets_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t receive_errors = 0;  // Packets that are malformed or have a wrong ICRC.

  PortTotals& operator+=(const PortTotals& more);
  friend bool operator==(const PortTotals&, const PortTotals&) = default;
};

/// Returns the totals of one program. Zeros if the arena is of another release.
PortTotals port_totals(int arena_fd);

/// Returns the files that Linux has for them (Documentation/ABI/stable/sysfs-class-infiniband).
std::vector<DeviceFile> counter_files(const PortTotals& totals);

}  // namespace verbatim::agent
