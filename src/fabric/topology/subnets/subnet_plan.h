#pragma once

#include <cstdint>
#include <vector>

#include "fabric/topology/subnets/gid_prefix.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// What the manager of one subnet has to know.
struct SubnetPlan {
  /// To packets whose DGID has this prefix: a router's port in this subnet, by its GUID.
  struct Route {
    std::uint64_t gid_prefix = 0;
    std::uint64_t router_guid = 0;
    bool operator==(const Route&) const = default;
  };
  PortPlace manager;  // The first port of a host.
  std::uint64_t gid_prefix = kDefaultGidPrefix;
  std::vector<Route> routes;
  bool operator==(const SubnetPlan&) const = default;
};

/// In the order of their managers; without subnets that have no host. The prefixes are the default
/// one if no router connects subnets, else site-local ones, which routers forward.
std::vector<SubnetPlan> plan_subnets(const Topology& topology);

}  // namespace verbatim::fabric
