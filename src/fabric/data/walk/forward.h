#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "fabric/data/walk/walker.h"
#include "fabric/topology/subnets/gid_prefix.h"
#include "wire/net/grh.h"
#include "wire/net/lrh.h"

/// What a router does with a packet (IBA chapter 19): by the prefix of its DGID it leaves through
/// the port in that subnet, with an LRH of that subnet and a hop limit that is one less. ICRCs
/// cover neither, so nothing else of the packet changes.
namespace verbatim::fabric {

/// Which way, and under which LIDs there.
struct NextSubnet {
  std::uint8_t port = 0;
  std::uint16_t dlid = 0;
  std::uint16_t slid = 0;
};

/// A router knows the subnets of its own ports, and the LIDs of the hosts there: what it would ask
/// their subnet administrators for, it reads in the image.
class RouterTables {
 public:
  explicit RouterTables(const Image& image) : image_(image) {}

  /// Packets to this LID are for the router to forward.
  bool is_own_lid(const NodeRecord& router, unsigned port, std::uint16_t lid) const {
    const PortRecord& record = image_.port(router, port);
    const std::uint16_t own = record.lid.load(std::memory_order_relaxed);
    const unsigned path_bits = (1u << (record.lmc.load(std::memory_order_relaxed) & 7)) - 1;
    return own != 0 && (lid & ~path_bits) == own;
  }
  /// Returns nothing if the router has no port in the subnet, or knows no host there with this GID.
  /// Packets from or to a link-local GID stay in their subnet (IBA 4.1.1).
  std::optional<NextSubnet> next_subnet(const NodeRecord& router, const wire::Grh& grh) const {
    const auto prefix = load_be<std::uint64_t>(as_bytes(grh.destination));
    if (is_link_local(prefix) || is_link_local(load_be<std::uint64_t>(as_bytes(grh.source)))) {
      return std::nullopt;
    }
    const unsigned port = port_in_subnet(router, prefix);
    const NodeRecord& host =
        image_.node(image_.station_by_guid(load_be<std::uint64_t>(as_bytes(grh.destination) + 8)));
    const std::uint16_t lid = host.lid.load(std::memory_order_relaxed);
    if (port == kNoPort || lid == 0 || prefix_of(host, kCablePort) != prefix) {
      return std::nullopt;
    }
    return NextSubnet{.port = static_cast<std::uint8_t>(port),
                      .dlid = lid,
                      .slid = image_.port(router, port).lid.load(std::memory_order_relaxed)};
  }

 private:
  static const std::byte* as_bytes(const Gid& gid) {
    return reinterpret_cast<const std::byte*>(gid.bytes.data());
  }
  std::uint64_t prefix_of(const NodeRecord& node, unsigned port) const {
    return image_.port(node, port).gid_prefix.load(std::memory_order_relaxed);
  }
  unsigned port_in_subnet(const NodeRecord& router, std::uint64_t prefix) const {
    for (unsigned port = 1; port <= router.ports; ++port) {
      if (prefix_of(router, port) == prefix) return port;
    }
    return kNoPort;
  }

  const Image& image_;
};

/// The packet stands in the buffer of a router's port. After a death this is done again, with
/// headers that may be new already: the hop limit that they had is in `Slot::at_router`, and all
/// else follows from the GIDs. A packet crosses one router at most, which knows its destination.
template <typename Policy>
void Walker<Policy>::forward(LinkRecord& link, Handle handle, Slot& slot) {
  constexpr std::size_t kGrhAt = wire::Lrh::kSize;
  const NodeRecord& router = image_.node(link.end);
  const RouterTables tables(image_);
  LinkRecord::Counters& counters = link.counters;
  if (Routes::is_multicast(slot.dlid)) return discard(handle, slot, counters.multicast_unwanted);
  const MutableByteSpan packet = slot.packet();
  const auto lrh = wire::decode_lrh(packet);
  if (!lrh || lrh->next != wire::Lrh::Next::grh) {
    return discard(handle, slot, counters.dlid_errors);
  }
  auto grh = wire::decode_grh(packet.subspan(kGrhAt));
  if (!grh) return discard(handle, slot, counters.dlid_errors);
  const Where here(slot.where.load(std::memory_order_relaxed));
  const bool is_again = here.is_at_router(slot.at_router);
  if (is_again) {
    grh->hop_limit = Where::hop_limit(slot.at_router);
  } else if (!tables.is_own_lid(router, link.end_port, slot.dlid)) {
    return discard(handle, slot, counters.dlid_errors);
  }
  const auto next = tables.next_subnet(router, *grh);
  Exit exit{.fault = RouteFault::dlid};
  if (next) exit = Routes(image_).through(router, link.end_port, next->port, slot);
  if (exit.fault == RouteFault::none && !may_leave_subnet(grh->hop_limit)) {
    exit.fault = RouteFault::hop_limit;
  }
  if (exit.fault != RouteFault::none) return discard_unroutable(link, handle, slot, exit);
  slot.at_router = here.at_router(grh->hop_limit);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // As `commit`.
  Policy::at(CrashPoint::hop_limit_noted);
  auto new_lrh = *lrh;
  new_lrh.dlid = Lid{next->dlid};
  new_lrh.slid = Lid{next->slid};
  --grh->hop_limit;
  encode(new_lrh, packet.first<wire::Lrh::kSize>());
  encode(*grh, packet.subspan<kGrhAt, wire::Grh::kSize>());
  Policy::at(CrashPoint::headers_rewritten);
  slot.dlid = next->dlid;
  chain(exit.link, handle, slot, exit.lane);
}

}  // namespace verbatim::fabric
