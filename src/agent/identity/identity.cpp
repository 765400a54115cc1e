#include "agent/identity/identity.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace verbatim::agent {
namespace {

std::uint32_t hash(
    std::string_view text) {  // FNV-1a: the same on all machines and in all releases.
  std::uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 16777619u;
  return value;
}

/// Returns the first address of the interface; IPv4 is preferred.
Result<SocketAddress> address_of(const std::string& name,
                                 const std::vector<Interface>& interfaces) {
  const auto found = std::ranges::find(interfaces, name, &Interface::name);
  if (found == interfaces.end()) {
    return refuse(ENODEV,
                  fmt::format("this machine (or network namespace) has no interface {}", name));
  }
  if (!found->first_ipv4().empty()) return found->first_ipv4();
  if (!found->addresses.empty()) return found->addresses.front();
  return refuse(EADDRNOTAVAIL, fmt::format("the interface {} has no IP address", name));
}

SocketAddress default_address(const std::string& node, const std::vector<Interface>& interfaces) {
  if (node != "local") return address_from_name(node);
  for (const Interface& interface : interfaces) {
    if (!interface.is_up || interface.is_loopback || interface.first_ipv4().empty()) continue;
    return interface.first_ipv4();
  }
  return SocketAddress::ipv4({127, 0, 0, 1}, kRocePort);
}

const Interface* interface_with(const std::vector<Interface>& interfaces,
                                const SocketAddress& address) {
  const auto found = std::ranges::find_if(
      interfaces, [&](const Interface& interface) { return interface.has(address); });
  return found == interfaces.end() ? nullptr : &*found;
}

/// A link-local address needs its interface: if none was given, uses the one that has it.
SocketAddress with_scope(const SocketAddress& address, const std::vector<Interface>& interfaces) {
  if (!address.is_link_local() || address.scope_id() != 0) return address;
  for (const Interface& interface : interfaces) {
    const auto scoped = SocketAddress::ipv6(address.ipv6_bytes(), kRocePort, interface.index);
    if (interface.has(scoped)) return scoped;
  }
  return address;
}

Result<void> add_wanted(Node& node, const SocketAddress& wanted,
                        const std::vector<Interface>& interfaces) {
  const SocketAddress address = with_scope(wanted.with_port(kRocePort), interfaces);
  const bool any = address.ipv6_bytes() == std::array<std::uint8_t, 16>{} ||
                   (address.is_ipv4() && address.ipv4_bytes()[0] == 0);
  if (any || address.is_multicast()) {
    return refuse(EINVAL, fmt::format("{} is no address of one host", address.ip_text()));
  }
  if (interface_with(interfaces, address) == nullptr) {
    return refuse(EADDRNOTAVAIL, fmt::format("no interface of this machine (or network namespace) "
                                             "has the address {}",
                                             address.ip_text()));
  }
  if (std::ranges::find(node.addresses, address) != node.addresses.end()) {
    return refuse(EINVAL, fmt::format("the address {} is given twice", address.ip_text()));
  }
  if (node.addresses.full()) {
    return refuse(ENOSPC, fmt::format("a node has at most {} addresses", kAddressesMax));
  }
  node.addresses.push(address);
  return {};
}

/// The address that MAC and interface follow: the first IPv4 one, else the first.
const SocketAddress& primary_of(const Node& node) {
  const auto ipv4 = std::ranges::find_if(node.addresses, &SocketAddress::is_ipv4);
  return ipv4 == node.addresses.end() ? node.addresses.front() : *ipv4;
}

/// Returns a MAC for a node that cannot use its interface's. Its second byte is 0 if it was made
/// from an IPv4 address, which can then be computed from it.
MacAddress made_up_mac(const SocketAddress& primary) {
  if (primary.is_ipv4()) return synthetic_mac(primary);
  const std::uint32_t value = hash(primary.ip_text());
  return {0x02,
          0x01,
          static_cast<std::uint8_t>(value >> 24),
          static_cast<std::uint8_t>(value >> 16),
          static_cast<std::uint8_t>(value >> 8),
          static_cast<std::uint8_t>(value)};
}

/// Its GID would look as if it were made from an IPv4 address.
bool looks_made_up(const SocketAddress& address) {
  return !ipv4_of_synthetic_gid(gid_of(address)).empty();
}

/// Sets MAC and GUID, and index 0 of the GID table where there is a link-local GID.
void add_link_identity(Node& node, const Interface& interface,
                       const MayBeInterface& may_be_interface) {
  const SocketAddress address = primary_of(node);
  const SocketAddress link_local = interface.link_local();
  const bool is_interface = !interface.is_loopback && interface.mac != MacAddress{} &&
                            !looks_made_up(link_local) && may_be_interface(interface);
  node.mac = is_interface ? interface.mac : made_up_mac(address);
  node.guid = eui64(node.mac);
  if (is_interface && !link_local.empty()) {
    const bool is_there = node.index_of(link_local) < node.addresses.size();
    if (!is_there && node.addresses.full()) return;
    if (!is_there) node.addresses.push(link_local);
    node.gids.push({gid_of(link_local), link_local});
  } else if (address.is_ipv4()) {
    node.gids.push({link_local_gid(synthetic_mac(address)), address});
  }
}

/// After the link-local GID: the first IPv4 address, then the others in their order.
void add_gids(Node& node) {
  const auto add = [&node](const SocketAddress& address) {
    const GidEntry entry{gid_of(address), address};
    if (std::ranges::find(node.gids, entry) == node.gids.end()) node.gids.push(entry);
  };
  add(primary_of(node));
  for (const SocketAddress& address : node.addresses) add(address);
}

}  // namespace

SocketAddress address_from_name(const std::string& node) {
  const std::uint32_t value = hash(node);
  const auto part = [value](int shift, std::uint32_t count, std::uint32_t first) {
    return static_cast<std::uint8_t>((value >> shift) % count + first);
  };
  // The second part is not 0, because users often choose such addresses themselves.
  return SocketAddress::ipv4({127, part(0, 254, 1), part(8, 256, 0), part(16, 254, 1)}, kRocePort);
}

namespace {

Result<std::vector<SocketAddress>> choose_addresses(const std::string& node,
                                                    const config::NodeConfig& wanted,
                                                    const std::vector<Interface>& interfaces) {
  if (!wanted.addresses.empty()) return wanted.addresses;
  if (wanted.interface.empty()) return std::vector{default_address(node, interfaces)};
  const auto address = address_of(wanted.interface, interfaces);
  if (!address) return std::unexpected(address.error());
  return std::vector{*address};
}

/// The wanted device. What follows from the node's GUID follows from the wanted one.
void add_device(Node& node, const config::NodeConfig& wanted) {
  node.protocol = wanted.protocol;
  if (wanted.node_guid) node.guid = *wanted.node_guid;
  node.device = config::device_name(
      wanted.device, {.node = node.name, .guid = node.guid, .protocol = node.protocol});
  node.profile = wanted.profile->name;
  node.firmware = wanted.firmware;
  node.limits = wanted.limits;
  node.enforces_memlock = wanted.enforces_memlock;
}

}  // namespace

Result<Node> identify(const std::string& name, const config::NodeConfig& wanted,
                      const std::vector<Interface>& interfaces,
                      const MayBeInterface& may_be_interface) {
  Node node;
  node.name = name;
  const auto chosen = choose_addresses(name, wanted, interfaces);
  if (!chosen) return std::unexpected(chosen.error());
  for (const SocketAddress& address : *chosen) {
    if (auto added = add_wanted(node, address, interfaces); !added) {
      return std::unexpected(added.error());
    }
  }
  const Interface& interface = *interface_with(interfaces, primary_of(node));
  if (!wanted.interface.empty() && interface.name != wanted.interface) {
    return refuse(EADDRNOTAVAIL,
                  fmt::format("the address {} belongs to interface {}, not {}",
                              primary_of(node).ip_text(), interface.name, wanted.interface));
  }
  node.interface = interface.name;
  node.interface_index = interface.index;
  node.network.interface_mtu_bytes = interface.mtu_bytes;
  add_link_identity(node, interface, may_be_interface);
  add_gids(node);
  add_device(node, wanted);
  return with_versions(node, wanted.versions);
}

Result<Node> with_versions(Node node, const RoceVersions& versions) {
  const auto addresses = std::exchange(node.addresses, {});
  const auto gids = std::exchange(node.gids, {});
  if (addresses.size() * versions.size() > kAddressesMax) {
    return refuse(ENOSPC, fmt::format("{} addresses of {} RoCE versions are more than {}",
                                      addresses.size(), versions.size(), kAddressesMax));
  }
  for (const SocketAddress& address : addresses) {
    for (const RoceVersion version : versions) node.addresses.push(of_version(address, version));
  }
  for (const GidEntry& entry : gids) {
    for (const RoceVersion version : versions) {
      const bool is_own = entry.gid == gid_of(entry.address);
      if (!is_own && version == RoceVersion::v1) continue;
      node.gids.push({entry.gid, of_version(entry.address, version)});
    }
  }
  return node;
}

NetworkState port_state(const Node& node, const std::vector<Interface>& interfaces) {
  const auto own = std::ranges::find(interfaces, node.interface_index, &Interface::index);
  if (own == interfaces.end()) {
    return {.is_present = false,
            .is_active = false,
            .addresses = 0,
            .interface_mtu_bytes = node.network.interface_mtu_bytes};
  }
  NetworkState state{
      .addresses = 0, .hardware_address = own->mac, .interface_mtu_bytes = own->mtu_bytes};
  for (std::uint32_t i = 0; i < node.addresses.size(); ++i) {
    if (interface_with(interfaces, node.addresses[i]) != nullptr) state.addresses |= 1u << i;
  }
  state.is_active = own->is_up && state.addresses != 0;
  return state;
}

std::vector<SocketAddress> unassigned_addresses(const Node& node,
                                                const std::vector<Interface>& interfaces) {
  std::vector<SocketAddress> strangers;
  const auto own = std::ranges::find(interfaces, node.interface_index, &Interface::index);
  if (own == interfaces.end()) return strangers;
  for (const SocketAddress& address : own->addresses) {
    const bool is_own = std::ranges::any_of(
        node.addresses, [&](const SocketAddress& a) { return same_ip(a, address); });
    if (!is_own && !address.is_loopback() && !looks_made_up(address)) strangers.push_back(address);
  }
  return strangers;
}

}  // namespace verbatim::agent
