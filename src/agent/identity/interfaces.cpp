#include "agent/identity/interfaces.h"

#include <algorithm>
#include <cstring>

#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include "base/os/unique_fd.h"

namespace verbatim::agent {
namespace {

Interface& entry_for(std::vector<Interface>& interfaces, const char* name) {
  const auto known = std::ranges::find(interfaces, name, &Interface::name);
  if (known != interfaces.end()) return *known;
  Interface& added = interfaces.emplace_back();
  added.name = name;
  added.index = if_nametoindex(name);
  return added;
}

std::uint32_t mtu_of(int any_socket, const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (ioctl(any_socket, SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<std::uint32_t>(request.ifr_mtu);
}

void add_address(Interface& interface, const sockaddr* address) {
  if (address == nullptr) return;
  if (address->sa_family == AF_PACKET) {
    const auto* link = reinterpret_cast<const sockaddr_ll*>(address);
    if (link->sll_halen == interface.mac.size()) {
      std::memcpy(interface.mac.data(), link->sll_addr, interface.mac.size());
    }
    return;
  }
  // `from` refuses other families than IPv4 and IPv6, which do not matter here.
  if (const auto ip = SocketAddress::from(address, sizeof(sockaddr_in6))) {
    interface.addresses.push_back(ip->with_port(kRocePort));
  }
}

template <typename Predicate>
SocketAddress first_that(const std::vector<SocketAddress>& addresses, Predicate fits) {
  const auto found = std::ranges::find_if(addresses, fits);
  return found == addresses.end() ? SocketAddress() : *found;
}

}  // namespace

SocketAddress Interface::link_local() const {
  return first_that(addresses, [](const SocketAddress& a) { return a.is_link_local(); });
}

SocketAddress Interface::first_ipv4() const {
  return first_that(addresses, [](const SocketAddress& a) { return a.is_ipv4(); });
}

bool Interface::has(const SocketAddress& address) const {
  if (is_loopback && address.is_ipv4() && address.is_loopback()) return true;  // All of 127/8.
  return std::ranges::any_of(addresses,
                             [&](const SocketAddress& own) { return same_ip(own, address); });
}

Result<std::vector<Interface>> read_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return refuse_errno("getifaddrs");
  const UniqueFd any_socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    Interface& interface = entry_for(interfaces, entry->ifa_name);
    interface.is_up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    interface.is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    interface.mtu_bytes = mtu_of(any_socket.get(), interface.name);
    add_address(interface, entry->ifa_addr);
  }
  freeifaddrs(list);
  return interfaces;
}

}  // namespace verbatim::agent
