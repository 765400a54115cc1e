#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "agent/protocol/device_files.h"
#include "observe/fault_counters.h"

/// What a node's port has carried: the sums behind
/// /sys/class/infiniband/verbatim0/ports/1/counters; and the faults that were injected there.
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

/// What fault injection has done to packets, in the order of `observe::kFaultCounters`.
struct FaultTotals {
  std::array<std::uint64_t, observe::kFaultCounters.size()> counts{};

  FaultTotals& operator+=(const FaultTotals& more);
  friend bool operator==(const FaultTotals&, const FaultTotals&) = default;
};
/// Of one program, as `port_totals`.
FaultTotals fault_totals(int arena_fd);

/// The files that Linux has for them, as Documentation/ABI/stable/sysfs-class-infiniband describes
/// them.
std::vector<DeviceFile> counter_files(const PortTotals& totals);

}  // namespace verbatim::agent
