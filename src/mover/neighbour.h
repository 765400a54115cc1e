#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/address.h"
#include "base/error.h"
#include "base/time.h"

namespace verbatim::mover {

/// Where Ethernet frames for an IP address go.
struct LinkPlace {
  std::uint32_t interface_index = 0;
  MacAddress mac{};
};

/// A place that threads send to while another moves it: a frame in between is lost, as on any
/// network.
class MovingPlace {
 public:
  LinkPlace get() const {
    LinkPlace place{.interface_index = interface_index_.load(std::memory_order_relaxed)};
    const std::uint64_t mac = mac_.load(std::memory_order_relaxed);
    std::memcpy(place.mac.data(), &mac, place.mac.size());
    return place;
  }
  void set(const LinkPlace& place) {
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
inline constexpr TimeNs kNeighbourPatience = 3 * kSecond;

/// Asks the kernel's routes and neighbours (rtnetlink(7)), and has it ask the network where it does
/// not know: waits for its answer for `patience` then. An address of this machine: the loopback
/// interface. EHOSTUNREACH: nobody answers; or it is behind a router, which frames do not cross.
/// ENETUNREACH: there is no route. `interface_index` is for link-local addresses and groups.
Result<LinkPlace> find_link_place(const SocketAddress& destination, std::uint32_t interface_index,
                                  TimeNs patience);

/// The group's Ethernet address, as Linux has it for RoCE v1: 33:33 and the GID's last four bytes.
MacAddress multicast_mac(const SocketAddress& group);

}  // namespace verbatim::mover
