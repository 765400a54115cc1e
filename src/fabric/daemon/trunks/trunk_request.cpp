#include "fabric/daemon/trunks/trunk_request.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/protocol/decode.h"

namespace verbatim::fabric {
namespace {

std::optional<SocketAddress> address_of(const protocol::UdpAddress& told) {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (told.port == 0) return std::nullopt;
  if (!std::equal(kMapped.begin(), kMapped.end(), told.ip.begin())) {
    return SocketAddress::ipv6(told.ip, told.port, told.scope_id);
  }
  return SocketAddress::ipv4({told.ip[12], told.ip[13], told.ip[14], told.ip[15]}, told.port);
}

}  // namespace

Result<Trunks::Options> options_of(const Topology& topology,
                                   const protocol::TrunkRequest& request) {
  const std::string_view name = protocol::text_of(request.node);
  const auto node = find_node(topology, name);
  if (!node) return std::unexpected(node.error());
  const unsigned ports = topology.nodes[*node].ports;
  if (request.port == 0 || request.port > ports) {
    return refuse(ENODEV, fmt::format("'{}' has ports 1 to {}", name, ports));
  }
  const Rate rate{static_cast<LinkWidth>(request.width), static_cast<LinkSpeed>(request.speed)};
  if (lanes_of(rate.width) == 0 || static_cast<std::size_t>(rate.speed) >= kLinkSpeeds.size()) {
    return refuse(EINVAL, "there is no link of this width or speed");
  }
  return Trunks::Options{.port = {*node, request.port},
                         .rate = rate,
                         .listen = address_of(request.listen),
                         .peer = address_of(request.peer)};
}

std::optional<PortPlace> trunk_of(const Topology& topology, const Trunks& trunks,
                                  const protocol::LinkRequest& request) {
  const auto node = find_node(topology, protocol::text_of(request.node));
  if (!node) return std::nullopt;
  const PortPlace port{*node, request.port};
  return trunks.contains(port) ? std::optional(port) : std::nullopt;
}

Result<void> change_trunk(Trunks& trunks, PortPlace port, const protocol::LinkRequest& request,
                          TimeNs now) {
  using Change = protocol::LinkRequest::Change;
  if (request.change != Change::up && request.change != Change::down) {
    return refuse(EOPNOTSUPP, "a trunk goes down or up: it cannot be made worse");
  }
  return trunks.set_cable(port, request.change == Change::up, now);
}

}  // namespace verbatim::fabric
