#pragma once

#include <cstdint>
#include <vector>

#include "fabric/topology/link_integrity.h"
#include "fabric/topology/topology.h"
#include "mad/pma/port_counter_source.h"
#include "wire/mad/management_packet.h"

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
  std::uint64_t transmit_words = 0;
  std::uint64_t receive_packets = 0;
  std::uint64_t receive_words = 0;
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

  void count_transmitted(std::uint64_t words) {
    ++transmit_packets;
    transmit_words += words;
  }
  void count_received(std::uint64_t words) {
    ++receive_packets;
    receive_words += words;
  }
};

/// Words of 4 bytes of a management datagram on a cable: LRH to ICRC, as the data path counts them.
constexpr std::uint64_t words_of_datagram(bool has_grh) {
  constexpr std::size_t kLrhBytes = 8;
  constexpr std::size_t kGrhBytes = 40;
  return (kLrhBytes + (has_grh ? kGrhBytes : 0) + wire::kManagementPacketBytes) / 4;
}

/// All counts of a node's ports, as its performance management agent shows them.
class NodeCounts final : public mad::PortCounterSource {
 public:
  /// `relays`: it has the counters of what a switch cannot forward, as no adapter has
  /// (IBA 16.1.3.5).
  NodeCounts(std::uint32_t node, std::size_t ports, bool relays, const DataCounters* const& data)
      : node_(node), ports_(ports), relays_(relays), data_(data) {}

  PortCounts& of(std::uint8_t port) { return ports_[port]; }
  mad::PortCounterValues counters(std::uint8_t port) const override;

 private:
  std::uint32_t node_;
  std::vector<PortCounts> ports_;
  bool relays_;
  const DataCounters* const& data_;  // The net's: null while there is no data path.
};

}  // namespace verbatim::fabric
