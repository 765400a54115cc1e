#include "agent/server/port_totals.h"

#include <fmt/format.h>

#include "agent/protocol/arena_header.h"

namespace verbatim::agent {
namespace {

/// `port_xmit_data` and `port_rcv_data` count words of 4 bytes (IBA 16.1.3.5).
constexpr std::uint64_t kBytesPerUnit = 4;

}  // namespace

PortTotals& PortTotals::operator+=(const PortTotals& more) {
  packets_sent += more.packets_sent;
  bytes_sent += more.bytes_sent;
  packets_received += more.packets_received;
  bytes_received += more.bytes_received;
  receive_errors += more.receive_errors;
  return *this;
}

PortTotals port_totals(int arena_fd) {
  const auto header = read_arena_header(arena_fd);
  if (header == nullptr) return {};
  const observe::PortCounters& counters = header->port_counters;
  return {.packets_sent = counters.packets_sent.value(),
          .bytes_sent = counters.bytes_sent.value(),
          .packets_received = counters.packets_received.value(),
          .bytes_received = counters.bytes_received.value(),
          .receive_errors = counters.icrc_errors.value() + counters.malformed.value()};
}

FaultTotals& FaultTotals::operator+=(const FaultTotals& more) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += more.counts[i];
  return *this;
}

FaultTotals fault_totals(int arena_fd) {
  FaultTotals totals;
  const auto header = read_arena_header(arena_fd);
  if (header == nullptr) return totals;
  for (std::size_t i = 0; i < totals.counts.size(); ++i) {
    totals.counts[i] = (header->fault_counters.*observe::kFaultCounters[i].member).value();
  }
  return totals;
}

std::vector<DeviceFile> counter_files(const PortTotals& totals) {
  const auto file = [](const char* name, std::uint64_t value) {
    return DeviceFile{fmt::format("ports/1/counters/{}", name), std::to_string(value)};
  };
  return {file("port_xmit_data", totals.bytes_sent / kBytesPerUnit),
          file("port_xmit_packets", totals.packets_sent),
          file("port_rcv_data", totals.bytes_received / kBytesPerUnit),
          file("port_rcv_packets", totals.packets_received),
          file("port_rcv_errors", totals.receive_errors)};
}

}  // namespace verbatim::agent
