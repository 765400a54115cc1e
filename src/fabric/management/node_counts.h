#pragma once

#include <cstdint>
#include <vector>

#include "fabric/topology/link_integrity.h"
#include "fabric/topology/topology.h"
#include "mad/pma/port_counter_source.h"

namespace verbatim::fabric {

/// What the data path counts at each port.
class DataCounters {
 public:
  /// Adds the port's counts to `values`.
  virtual void add_counters(PortPlace port, mad::PortCounterValues& values) const = 0;

 protected:
  ~DataCounters() = default;
};

/// What management datagrams count at a port, and its link.
struct PortCounts {
  std::uint64_t transmit_packets = 0;
  std::uint64_t receive_packets = 0;
  std::uint64_t link_downed = 0;
  std::uint64_t symbol_errors = 0;
  std::uint64_t damaged_packets = 0;
  std::uint64_t link_integrity_errors = 0;
  std::uint64_t link_error_recoveries = 0;
  std::uint64_t inactive_discards = 0;
  std::uint64_t dlid_mapping_errors = 0;
  std::uint64_t looping_errors = 0;
  std::uint64_t transmit_constraint_errors = 0;
  std::uint64_t receive_constraint_errors = 0;
  LinkIntegrity integrity{};  // Of what the port receives.
};

/// All counts of a node's ports, as its performance management agent shows them.
class NodeCounts final : public mad::PortCounterSource {
 public:
  NodeCounts(std::uint32_t node, std::size_t ports, const DataCounters* const& data)
      : node_(node), ports_(ports), data_(data) {}

  PortCounts& of(std::uint8_t port) { return ports_[port]; }
  mad::PortCounterValues counters(std::uint8_t port) const override;

 private:
  std::uint32_t node_;
  std::vector<PortCounts> ports_;
  const DataCounters* const& data_;  // The net's: null while there is no data path.
};

}  // namespace verbatim::fabric
