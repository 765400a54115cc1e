#include "ulp/tcp/node_addresses.h"

#include <algorithm>

#include <fmt/format.h>

#include "ulp/engine/portals.h"

namespace verbatim::ulp::tcp {

std::vector<SocketAddress> node_addresses(const rdma::Device& device, std::uint16_t port) {
  const rdma::PortFacts facts = device.port();
  std::vector<SocketAddress> addresses;
  if (facts.is_infiniband || device.limits().is_iwarp) return addresses;
  for (const Gid& gid : facts.gids) {
    const auto& b = gid.bytes;
    const auto address = gid.is_ipv4_mapped()
                             ? SocketAddress::ipv4({b[12], b[13], b[14], b[15]}, port)
                             : SocketAddress::ipv6(b, port);
    // A GID is there once for each version of RoCE, and free entries are zero.
    const bool is_new = std::ranges::find(addresses, address) == addresses.end();
    if (is_new && !is_any(address) && !address.is_link_local()) addresses.push_back(address);
  }
  return addresses;
}

std::string text_of_listener(const rdma::Device& device, const SocketAddress& place) {
  std::string text;
  if (is_any(place)) {
    for (const SocketAddress& one : node_addresses(device, place.port()))
      text += fmt::format("{}{}", text.empty() ? "" : ", ", one.text());
  }
  return text.empty() ? place.text() : text;
}

}  // namespace verbatim::ulp::tcp
