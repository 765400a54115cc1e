#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// Makes nodes and cables one after the other: each node with the next GUID of its kind, each cable
/// at the next free port. Local GUIDs: no vendor's.
class Builder {
 public:
  Builder(Rate rate, std::uint32_t length_m) : rate_(rate), length_m_(length_m) {}

  /// Returns the node's place.
  std::uint32_t add(NodeKind kind, std::string name, unsigned ports);
  /// The same, named by a letter and how many nodes of this letter there are: "L1", "L2".
  std::uint32_t add_numbered(NodeKind kind, char letter, unsigned ports);
  /// True where a node has a port without a cable.
  bool has_free_port(std::uint32_t node) const {
    return used_ports_[node] < topology_.nodes[node].ports;
  }
  /// Requires a free port at both.
  void connect(std::uint32_t a, std::uint32_t b);

  Topology take();

 private:
  Rate rate_;
  std::uint32_t length_m_;
  Topology topology_;
  std::vector<std::uint8_t> used_ports_;
  std::array<std::uint32_t, 128> numbers_{};  // By letter.
  std::array<std::uint64_t, 3> next_guids_{0x0200'0000'0010'0000, 0x0200'0000'0020'0000,
                                           0x0200'0000'0030'0000};
};

}  // namespace verbatim::fabric
