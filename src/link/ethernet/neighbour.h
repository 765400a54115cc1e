#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"

namespace verbatim::link {

/// The interface and MAC address for Ethernet frames to an IP address.
struct LinkAddress {
  std::uint32_t interface_index = 0;
  MacAddress mac{};
};

/// A link address that threads send to while another thread changes it. A frame sent in between may
/// be lost, as on any network.
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

/// How long creating a connection or an address handle waits for neighbour discovery (ARP or NDP).
inline constexpr TimeNs kNeighbourTimeout = 3 * kSecond;

/// Resolves with the kernel's routes and neighbours (rtnetlink(7)); starts neighbour discovery if
/// necessary and waits for the answer for `patience`. For an address of this machine returns the
/// loopback interface. EHOSTUNREACH if there is no answer, or the destination is behind a router,
/// which frames cannot cross. ENETUNREACH if there is no route. `interface_index` is for link-local
/// addresses and groups.
Result<LinkAddress> resolve_link_address(const SocketAddress& destination,
                                         std::uint32_t interface_index, TimeNs timeout);

/// Returns the group's Ethernet address, as Linux maps it for RoCE v1: 33:33 and the GID's last
/// four bytes.
MacAddress multicast_mac(const SocketAddress& group);

}  // namespace verbatim::link
