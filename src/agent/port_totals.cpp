#include "agent/port_totals.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <unistd.h>

#include "adapter/arena.h"

namespace verbatim::agent {
namespace {

/// `port_xmit_data` and `port_rcv_data` count in words of 4 bytes (IBA 16.1.3.5).
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
  using adapter::ArenaHeader;
  // The header's beginning: what comes behind the counters is long.
  constexpr std::size_t kLength =
      offsetof(ArenaHeader, port_counters) + sizeof(ArenaHeader::port_counters);
  alignas(ArenaHeader) std::array<std::byte, sizeof(ArenaHeader)> bytes{};
  if (arena_fd < 0 || pread(arena_fd, bytes.data(), kLength, 0) != ssize_t{kLength}) return {};
  const auto& header = *reinterpret_cast<const ArenaHeader*>(bytes.data());
  if (header.magic != ArenaHeader::kMagic || header.version != ArenaHeader::kVersion) return {};
  const observe::PortCounters& counters = header.port_counters;
  return {.packets_sent = counters.packets_sent.value(),
          .bytes_sent = counters.bytes_sent.value(),
          .packets_received = counters.packets_received.value(),
          .bytes_received = counters.bytes_received.value(),
          .receive_errors = counters.icrc_errors.value() + counters.malformed.value()};
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
