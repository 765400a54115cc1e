#pragma once

#include <map>
#include <utility>
#include <vector>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// Which ports are in the same subnet: those that cables and switches connect. Hosts and routers do
/// not connect their ports.
class Subnets {
 public:
  /// By node.
  explicit Subnets(std::vector<bool> is_switch) : is_switch_(std::move(is_switch)) {}
  explicit Subnets(const Topology& topology) {
    for (const Node& node : topology.nodes) {
      is_switch_.push_back(node.kind == NodeKind::switch_node);
    }
    for (const Link& link : topology.links) connect(link.a, link.b);
  }

  void connect(PortPlace a, PortPlace b) {
    PortPlace first = of(a);
    PortPlace second = of(b);
    if (second < first) std::swap(first, second);
    if (first != second) nearer_[second] = first;
  }
  /// The lowest port of the port's subnet; of a switch port 0.
  PortPlace of(PortPlace port) const {
    if (is_switch_[port.node]) port.port = 0;
    for (auto found = nearer_.find(port); found != nearer_.end(); found = nearer_.find(port)) {
      port = found->second;
    }
    return port;
  }

 private:
  std::vector<bool> is_switch_;
  std::map<PortPlace, PortPlace> nearer_;  // Of ports that are not the lowest one of their subnet.
};

}  // namespace verbatim::fabric
