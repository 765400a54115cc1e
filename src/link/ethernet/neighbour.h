#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"

namespace verbatim::link {

/// Where Ethernet frames for an IP address go.
struct LinkAddress {
  std::uint32_t interface_index = 0;
  MacAddress mac{};
};

/// A place that threads send to while another moves it: a frame in between is lost, as on any
/// network.
class AtomicLinkAddress {
 public:
  LinkAddress get() const {
    LinkAddress place{.interface_index = interface_index_.load(std::memory_order_relaxed)};
    const std::uint64_t mac = mac_.load(std::memory_order_relaxed);
    std::memcpy(place.mac.data(), &mac, place.mac.size());
    return place;
  }
  void set(const LinkAddress& place) {
    std::uint64_t mac = 0;
    std::memcpy(&mac, place.mac.data(), place.mac.size());
    interface_index_.store(place.interface_index, std::memory_order_relaxed);
    mac_.store(mac, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> interface_index_{0};
  std::atomic<std::uint64_t> mac_{0};
};

/// How long who makes a connection or an address handle waits for a neighbour's answer.
inline constexpr TimeNs kNeighbourTimeout = 3 * kSecond;

/// Asks the kernel's routes and neighbours (rtnetlink(7)), and has it ask the network where it does
/// not know: waits for its answer for `patience` then. An address of this machine: the loopback
/// interface. EHOSTUNREACH: nobody answers; or it is behind a router, which frames do not cross.
/// ENETUNREACH: there is no route. `interface_index` is for link-local addresses and groups.
Result<LinkAddress> resolve_link_address(const SocketAddress& destination,
                                         std::uint32_t interface_index, TimeNs timeout);

/// The group's Ethernet address, as Linux has it for RoCE v1: 33:33 and the GID's last four bytes.
MacAddress multicast_mac(const SocketAddress& group);

}  // namespace verbatim::link
