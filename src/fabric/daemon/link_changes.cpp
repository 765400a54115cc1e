#include "fabric/daemon/link_changes.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/protocol/decode.h"

namespace verbatim::fabric {
namespace {

using Change = protocol::LinkRequest::Change;

}  // namespace

Result<std::uint32_t> find_link(const Topology& topology, std::string_view name,
                                std::uint8_t port) {
  const auto node = find_node(topology, name);
  if (!node) return std::unexpected(node.error());
  const unsigned ports = topology.nodes[*node].ports;
  if (port == 0 || port > ports) {
    return refuse(ENODEV, fmt::format("'{}' has ports 1 to {}", name, ports));
  }
  const PortPlace place{*node, port};
  const auto found = std::ranges::find_if(
      topology.links, [place](const Link& link) { return link.a == place || link.b == place; });
  if (found == topology.links.end()) {
    return refuse(ENODEV, fmt::format("port {} of '{}' has no cable", port, name));
  }
  return static_cast<std::uint32_t>(found - topology.links.begin());
}

namespace {

/// What the cable carries after `degrade`: less than what the topology says.
Result<Rate> degraded_rate(const ManagementNet& net, std::uint32_t link,
                           const protocol::LinkRequest& request) {
  const Link& cable = net.topology().links[link];
  Rate rate = net.cable_rate(link);
  if (request.width != 0) rate.width = static_cast<LinkWidth>(request.width);
  if (request.speed != protocol::LinkRequest::kSameSpeed) {
    rate.speed = static_cast<LinkSpeed>(request.speed);
  }
  const bool is_known =
      lanes_of(rate.width) != 0 && static_cast<std::size_t>(rate.speed) < kLinkSpeeds.size();
  if (!is_known) return refuse(EINVAL, "there is no link of this width or speed");
  const bool is_less = lanes_of(rate.width) <= lanes_of(cable.width) && rate.speed <= cable.speed &&
                       rate != Rate{cable.width, cable.speed};
  if (is_less) return rate;
  return refuse(EINVAL, fmt::format("the cable is made for {}: degraded, it carries less than that",
                                    rate_text(cable.width, cable.speed)));
}

void set_bit_error_rate(ManagementNet& net, Keeper& keeper, std::uint32_t link, double rate) {
  net.set_bit_error_rate(link, rate);
  keeper.set_bit_error_rate(link, rate);
}

}  // namespace

Result<void> change_link(ManagementNet& net, Keeper& keeper, const protocol::LinkRequest& request,
                         TimeNs now) {
  const auto link = find_link(net.topology(), protocol::text_of(request.node), request.port);
  if (!link) return std::unexpected(link.error());
  switch (request.change) {
    case Change::down:
      net.set_link(*link, false, now);
      return {};
    case Change::up: {
      const Link& cable = net.topology().links[*link];
      net.set_cable_rate(*link, {cable.width, cable.speed}, now);
      net.set_link(*link, true, now);
      set_bit_error_rate(net, keeper, *link, 0);
      return {};
    }
    case Change::degrade: {
      const auto rate = degraded_rate(net, *link, request);
      if (!rate) return std::unexpected(rate.error());
      net.set_cable_rate(*link, *rate, now);
      return {};
    }
    case Change::errors: {
      const double rate = request.bit_error_rate;
      if (!(rate >= 0 && rate <= kBitErrorRateMax)) {
        return refuse(EINVAL,
                      fmt::format("a bit error rate is 0 to {}: with more, no link stays up",
                                  kBitErrorRateMax));
      }
      set_bit_error_rate(net, keeper, *link, rate);
      return {};
    }
  }
  return refuse(EINVAL, "a link goes down or up, is degraded, or has errors");
}

}  // namespace verbatim::fabric
