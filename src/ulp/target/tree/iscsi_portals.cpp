#include "ulp/target/tree/iscsi_portals.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/log.h"
#include "ulp/engine/portals.h"
#include "ulp/tcp/node_addresses.h"

namespace verbatim::ulp::target {

Result<SocketAddress> portal_address(const std::string& name) {
  const std::size_t colon = std::min(name.rfind(':'), name.size());
  std::string_view address = std::string_view(name).substr(0, colon);
  if (address.starts_with('[') && address.ends_with(']'))
    address = address.substr(1, address.size() - 2);
  std::uint16_t port = 0;
  const char* const end = name.data() + name.size();
  const char* const digits = std::min(name.data() + colon + 1, end);
  const auto [stop, error] = std::from_chars(digits, end, port);
  if (error != std::errc{} || stop != end) return refuse(EINVAL, name);
  return SocketAddress::parse(address, port);
}

/// Of any address: those that the device has. Nodes of one machine don't take each other's.
std::vector<SocketAddress> IscsiPortals::addresses_of(const SocketAddress& portal) const {
  if (!is_any(portal)) return {portal};
  auto addresses = tcp::node_addresses(driver_.device(), portal.port());
  if (portal.is_ipv4())
    std::erase_if(addresses, [](const SocketAddress& one) { return one.is_ipv6(); });
  return addresses;
}

int IscsiPortals::listen_by_tcp(Portal& portal, const SocketAddress& address) {
  if (address.port() == 0) return 0;  // Linux chooses one that nobody learns.
  for (const SocketAddress& one : addresses_of(address)) {
    const auto listener = tcp_.listen(one);
    if (!listener && listener.error().code == EADDRNOTAVAIL) continue;
    if (!listener) {
      log(LogLevel::info, "portal {}: {}", one.text(), listener.error().text);
      close_streams(portal);
      return EINVAL;
    }
    runner_.serve(*listener, stream_, tcp_);
    portal.streams.push_back(*listener);
  }
  return 0;
}

void IscsiPortals::close_streams(Portal& portal) {
  for (const rdma::ListenerId listener : std::exchange(portal.streams, {})) {
    runner_.stop_serving(listener);
    tcp_.unlisten(listener);
  }
}

int IscsiPortals::open(const std::string& name) {
  const auto address = portal_address(name);
  if (!address) return EINVAL;
  Portal& portal = portals_[name];
  if (portal.uses == 0) {
    if (const int code = listen_by_tcp(portal, *address); code != 0)
      return portals_.erase(name), code;
  }
  ++portal.uses;
  return 0;
}

void IscsiPortals::close(const std::string& name) {
  const auto found = portals_.find(name);
  if (found == portals_.end() || --found->second.uses > 0) return;
  close_streams(found->second);
  portals_.erase(found);
}

void IscsiPortals::add_places(std::vector<std::string>& places) const {
  for (const auto& [name, portal] : portals_) {
    for (const rdma::ListenerId listener : portal.streams)
      places.push_back("TCP " + tcp_.address_of(listener).text());
    if (portal.rdma) places.push_back("iSER " + name);
  }
}

/// iWARP's ports are TCP's: there the portal is RDMA's alone.
int IscsiPortals::set_iser(const std::string& name, bool is_on) {
  Portal& portal = portals_.at(name);
  const auto address = portal_address(name);
  const bool is_iwarp = driver_.device().limits().is_iwarp;
  if (!is_on) {
    if (portal.iser_uses == 0 || --portal.iser_uses > 0) return 0;
    runner_.stop_serving(*portal.rdma);
    driver_.unlisten(*std::exchange(portal.rdma, std::nullopt));
    return is_iwarp ? listen_by_tcp(portal, *address) : 0;
  }
  if (portal.iser_uses == 0) {
    if (is_iwarp) close_streams(portal);
    const auto listener = driver_.listen(rdma::IpService{*address});
    if (!listener) {
      log(LogLevel::info, "portal {}, iSER: {}", name, listener.error().text);
      if (is_iwarp) static_cast<void>(listen_by_tcp(portal, *address));
      return listener.error().code == EADDRINUSE ? EINVAL : listener.error().code;
    }
    runner_.serve(*listener, iser_, driver_);
    portal.rdma = *listener;
  }
  ++portal.iser_uses;
  return 0;
}

}  // namespace verbatim::ulp::target
