#include "agent/fabric/fabric_host.h"

#include <algorithm>
#include <cerrno>

#include <sys/socket.h>

#include "base/bytes.h"

namespace verbatim::agent {
namespace {

namespace protocol = fabric::protocol;

/// As the daemon takes it in the place of a name.
std::string guid_text(std::uint64_t guid) { return fmt::format("{:#x}", guid); }

protocol::HostName text_of(const std::string& host) {
  protocol::HostName text;
  protocol::put_text(text, host);
  return text;
}

arena::InfinibandPort port_of(const protocol::PortDescription& port) {
  arena::InfinibandPort out{.gid_prefix = port.gid_prefix,
                            .guid = port.guid,
                            .capabilities = port.capabilities,
                            .rate_mbps = port.rate_mbps,
                            .reregistrations = port.reregistrations,
                            .lid = Lid{port.lid},
                            .sm_lid = Lid{port.sm_lid},
                            .speed = port.speed,
                            .width = port.width,
                            .lmc = port.lmc,
                            .sm_service_level = port.sm_service_level,
                            .state = port.state,
                            .physical_state = port.physical_state,
                            .mtu = port.mtu,
                            .mtu_max = port.mtu_max,
                            .virtual_lanes = port.virtual_lanes,
                            .subnet_timeout = port.subnet_timeout,
                            .init_type_reply = port.init_type_reply};
  const std::size_t count = std::min<std::size_t>(port.pkey_count, port.pkeys.size());
  for (std::size_t i = 0; i < count; ++i) out.pkeys.push(port.pkeys[i]);
  return out;
}

}  // namespace

Result<std::unique_ptr<FabricHost>> FabricHost::open(const std::string& fabric,
                                                     const std::string& host) {
  auto folder = protocol::FabricFolder::of(fabric);
  if (!folder) return std::unexpected(folder.error());
  auto connection = folder->connect();
  if (!connection) return std::unexpected(connection.error());
  const auto viewed = protocol::ask<protocol::HostDescription>(
      connection->get(), protocol::ViewRequest{.host = text_of(host)});
  if (!viewed) return std::unexpected(viewed.error());
  const auto facts = protocol::ask<protocol::HostDescription>(
      connection->get(), protocol::WatchHost{.host = text_of(host)});
  if (!facts) return std::unexpected(facts.error());
  if (facts->port_count == 0) {
    return refuse(ENODEV, fmt::format("host '{}' of fabric '{}' has no port", host, fabric));
  }
  std::unique_ptr<FabricHost> opened(new FabricHost(fabric, std::move(*folder)));
  opened->connection_ = std::move(*connection);
  opened->facts_ = *facts;
  return opened;
}

Result<Node> FabricHost::node(const std::string& name, const config::NodeConfig& wanted) const {
  const std::string& host = wanted.host;
  if (facts_.address == std::array<std::uint8_t, 4>{}) {
    return refuse(EADDRNOTAVAIL, fmt::format("host '{}' of fabric '{}' has no IP address: a fabric "
                                             "has them for its first 65,534 hosts",
                                             host, fabric_));
  }
  Node node{.name = name,
            .guid = facts_.guid,
            .protocol = WireProtocol::infiniband,
            .device = protocol::text_of(facts_.device),
            .profile = wanted.profile->name,
            .firmware = wanted.firmware,
            .limits = wanted.limits,
            .enforces_memlock = wanted.enforces_memlock,
            .fabric = fabric_,
            .host = host,
            .fabric_id = facts_.fabric_id,
            .network = network()};
  node.host.make_printable();
  const SocketAddress address = SocketAddress::ipv4(facts_.address);
  node.addresses.push(address);
  node.gids.push({arena::gid_of(node.network.infiniband.front()), address});
  return node;
}

NetworkState FabricHost::network() const {
  NetworkState network{.is_active = false};
  const auto ports = std::span(facts_.ports).first(facts_.port_count);
  for (const protocol::PortDescription& port : ports) {
    if (network.infiniband.full()) break;
    network.is_active |= network.infiniband.push(port_of(port)).is_active();
  }
  return network;
}

Result<void> FabricHost::follow() {
  for (;;) {
    const auto incoming = receiver_.receive(connection_.get(), MSG_DONTWAIT);
    if (!incoming && incoming.error().code == EAGAIN) return {};
    if (!incoming) return std::unexpected(incoming.error());
    const auto facts = protocol::decode<protocol::HostDescription>(incoming->bytes);
    if (!facts) return std::unexpected(facts.error());
    facts_ = *facts;
  }
}

Result<UniqueFd> FabricHost::open_port(std::uint8_t port) const {
  auto connection = folder_.connect();
  if (!connection) return connection;
  const auto opened = protocol::ask<protocol::Opened>(
      connection->get(), protocol::OpenPort{.host = text_of(guid_text(facts_.guid)), .port = port});
  if (!opened) return std::unexpected(opened.error());
  return connection;
}

}  // namespace verbatim::agent
