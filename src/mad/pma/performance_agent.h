#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "mad/pma/counter_rows.h"
#include "mad/pma/port_counter_source.h"
#include "wire/performance/performance_packet.h"

namespace verbatim::mad {

/// Performance management agent of a node (IBA chapter 16): shows and resets what its ports count.
class PerformanceAgent {
 public:
  /// Ports `first` to `last`: a switch has a port 0. `source` must outlive the agent.
  PerformanceAgent(std::uint8_t first, std::uint8_t last, const PortCounterSource& source)
      : first_port_(first), last_port_(last), source_(source) {}

  /// Makes a request its answer. Returns false if it is no request, but for the node's software.
  bool on_packet(wire::PerformancePacket& packet);

 private:
  using Status = wire::MadStatus;
  /// What each counter of an attribute stood at when a Set last wrote it, less what was written.
  using Origins = std::array<std::uint64_t, kCountersMax>;

  Status answer(wire::PerformancePacket& packet, bool is_set);
  Status class_port_info(wire::PerformancePacket& packet, bool is_set) const;
  Status samples_control(wire::PerformancePacket& packet, bool is_set) const;
  template <typename Attribute, typename Rows = CounterRows<Attribute>>
  Status counters(wire::PerformancePacket& packet, bool is_set);
  template <typename Rows, typename Attribute>
  void write(std::uint8_t port, wire::PerformanceAttribute key, Attribute wanted);

  bool has_port(std::uint8_t port) const { return port >= first_port_ && port <= last_port_; }

  std::uint8_t first_port_;
  std::uint8_t last_port_;
  const PortCounterSource& source_;
  std::map<std::pair<std::uint8_t, wire::PerformanceAttribute>, Origins> origins_;
};

}  // namespace verbatim::mad
