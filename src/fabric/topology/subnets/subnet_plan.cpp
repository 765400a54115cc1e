#include "fabric/topology/subnets/subnet_plan.h"

#include <algorithm>
#include <map>

#include "fabric/topology/subnets/subnets.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint64_t kFirstSiteLocalPrefix = 0xfec0'0000'0000'0001;

/// In each subnet, by its lowest port: the first port of a host.
std::map<PortPlace, PortPlace> first_hosts(const Topology& topology, const Subnets& subnets) {
  std::map<PortPlace, PortPlace> found;
  for (const Link& link : topology.links) {
    for (const PortPlace end : {link.a, link.b}) {
      if (topology.nodes[end.node].kind != NodeKind::adapter) continue;
      const auto first = found.emplace(subnets.of(end), end).first;
      if (end < first->second) first->second = end;
    }
  }
  return found;
}

/// The cabled ports of each router.
std::map<std::uint32_t, std::vector<PortPlace>> ports_of_routers(const Topology& topology) {
  std::map<std::uint32_t, std::vector<PortPlace>> ports;
  for (const Link& link : topology.links) {
    for (const PortPlace end : {link.a, link.b}) {
      if (topology.nodes[end.node].kind == NodeKind::router) ports[end.node].push_back(end);
    }
  }
  return ports;
}

}  // namespace

std::vector<SubnetPlan> plan_subnets(const Topology& topology) {
  const Subnets subnets(topology);
  std::vector<SubnetPlan> plans;
  for (const auto& [subnet, host] : first_hosts(topology, subnets)) {
    plans.push_back({.manager = host});
  }
  std::ranges::sort(plans, {}, &SubnetPlan::manager);
  std::map<PortPlace, SubnetPlan*> plan_of;  // By the lowest port of the subnet.
  for (SubnetPlan& plan : plans) plan_of[subnets.of(plan.manager)] = &plan;

  const auto routers = ports_of_routers(topology);
  for (std::size_t i = 0; !routers.empty() && i < plans.size(); ++i) {
    plans[i].gid_prefix = kFirstSiteLocalPrefix + i;
  }
  for (const auto& [router, ports] : routers) {
    for (const PortPlace here : ports) {
      const auto own = plan_of.find(subnets.of(here));
      for (const PortPlace there : ports) {
        const auto other = plan_of.find(subnets.of(there));
        if (own == plan_of.end() || other == plan_of.end() || own == other) continue;
        own->second->routes.push_back(
            {.gid_prefix = other->second->gid_prefix,
             .router_guid = identity_of(topology.nodes[router], here.port).guid});
      }
    }
  }
  return plans;
}

}  // namespace verbatim::fabric
