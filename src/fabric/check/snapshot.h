#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/topology/subnets/subnets.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

inline constexpr std::uint8_t kNoOutput = 255;
inline constexpr std::uint8_t kNoLane = 15;  // SL to VL tables drop packets by it.
inline constexpr std::size_t kServiceLevels = 16;

struct PortSnapshot {
  std::uint64_t guid = 0;  // 0: it has none of its own, as a switch's external port.
  std::uint16_t lid = 0;   // 0: no manager has given one.
  std::uint8_t lmc = 0;
  std::uint8_t data_lanes = 15;  // In force.
  std::vector<std::uint16_t> p_keys;
  friend bool operator==(const PortSnapshot&, const PortSnapshot&) = default;
};

struct NodeSnapshot {
  std::string name;
  std::uint64_t guid = 0;
  NodeKind kind{};
  std::vector<PortSnapshot> ports;       // By number; port 0 has a switch's LID.
  std::vector<std::uint8_t> forwarding;  // A switch: the output port of each LID.
  std::vector<std::uint8_t> lanes;       // By input (a host: 0), output and service level.

  bool is_switch() const { return kind == NodeKind::switch_node; }
  std::uint8_t output(std::uint16_t lid) const {
    return lid < forwarding.size() ? forwarding[lid] : kNoOutput;
  }
  std::uint8_t lane(unsigned input, unsigned output, unsigned service_level) const {
    const std::size_t at = (input * ports.size() + output) * kServiceLevels + service_level;
    return at < lanes.size() ? lanes[at] : kNoLane;
  }
  friend bool operator==(const NodeSnapshot&, const NodeSnapshot&) = default;
};

struct CableSnapshot {
  PortPlace a;
  PortPlace b;
  bool is_active = false;
  friend bool operator==(const CableSnapshot&, const CableSnapshot&) = default;
};

/// What a subnet manager has programmed, and what the daemon finds wrong in the data path. All
/// places are in it.
struct Snapshot {
  std::vector<NodeSnapshot> nodes;
  std::vector<CableSnapshot> cables;
  std::vector<std::string> data_faults;  // Of the memory in which packets move, in words.
};

/// In which subnet each port is.
Subnets ports_by_subnet(const Snapshot& snapshot);
/// Each subnet alone: its cables, and the nodes that they connect. LIDs and partitions of
/// different subnets have nothing to do with each other.
std::vector<Snapshot> subnets_of(const Snapshot& snapshot);

/// A direction of a cable: from `a` if even.
using Direction = std::uint32_t;

/// Finds what is at the other end of a port.
class Cables {
 public:
  explicit Cables(const Snapshot& snapshot);
  /// By which packets leave the port; none without an active cable.
  std::optional<Direction> leaving(PortPlace port) const;
  PortPlace start(Direction direction) const;
  PortPlace end(Direction direction) const { return start(direction ^ 1); }

 private:
  const Snapshot& snapshot_;
  std::vector<std::vector<std::optional<Direction>>> directions_;
};

/// A port that packets go to, by one of its LIDs.
struct Destination {
  PortPlace port;
  std::uint16_t lid = 0;
};
/// Hosts' ports with active cables, and all switches if wanted.
std::vector<Destination> destinations(const Snapshot& snapshot, bool with_switches);
/// Hosts' ports with active cables and a LID, and the directions by which their packets leave.
std::vector<Direction> sources(const Snapshot& snapshot);

/// "S1/3".
std::string text_of(const Snapshot& snapshot, PortPlace port);

}  // namespace verbatim::fabric
