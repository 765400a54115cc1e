#pragma once

#include <array>
#include <cstdint>

#include "base/net/path.h"
#include "fabric/data/image/image.h"
#include "wire/subnet/port_info.h"
#include "wire/subnet/tables.h"

/// What a subnet manager writes into nodes, and what a performance manager reads. Movers look at it
/// with each packet; each entry changes at once.
namespace verbatim::fabric {

/// What the data path has counted at a port: of its link out, and of the one in (IBA 16.1.3.5).
struct DataCounts {
  struct OfALink : LinkRecord::Counters {
    std::array<LinkRecord::Lane, kLanes> lanes{};
    std::uint64_t packets = 0;  // Of all lanes.
    std::uint64_t words = 0;
  };
  OfALink out;
  OfALink in;
  LinkRecord::Damage damage_in;
  /// LocalLinkIntegrityErrors of the port, and of the one at the other end of the link out: the
  /// link recovers after each.
  std::uint32_t integrity_errors_in = 0;
  std::uint32_t integrity_errors_out = 0;
  std::uint64_t xmit_discards() const {
    return out.inactive_discards + out.mtu_discards + out.hoq_discards + out.lifetime_discards;
  }
  std::uint64_t rcv_switch_relay_errors() const {
    return in.dlid_errors + in.lane_errors + in.looping_errors;
  }
};

class Tables {
 public:
  explicit Tables(const Image& image) : image_(image) {}

  // Of switches. `block`: 64 LIDs.
  void set_linear(NodeIndex node, std::uint32_t block, const wire::LinearForwardingTable& table);
  wire::LinearForwardingTable linear(NodeIndex node, std::uint32_t block) const;
  void set_route(NodeIndex node, Lid lid, std::uint8_t port);
  std::uint8_t route(NodeIndex node, Lid lid) const;  // kNoPort: there is none.
  /// `block`: 32 multicast LIDs; `position`: 16 ports.
  void set_multicast(NodeIndex node, std::uint32_t block, unsigned position,
                     const wire::MulticastForwardingTable& table);
  wire::MulticastForwardingTable multicast(NodeIndex node, std::uint32_t block,
                                           unsigned position) const;
  void set_packet_lifetime(NodeIndex node, std::uint64_t lifetime_us);  // 0: unlimited.

  // Of hosts.
  void set_lid(NodeIndex node, Lid lid, std::uint8_t lmc);
  // Of routers.
  void set_router_lid(NodeIndex node, unsigned port, Lid lid, std::uint8_t lmc);
  // Of both: the prefix of the port's subnet.
  void set_gid_prefix(NodeIndex node, unsigned port, std::uint64_t prefix);

  // Of any node's ports.
  void set_lanes(NodeIndex node, unsigned in, unsigned out, const wire::SlToVlMappingTable& table);
  wire::SlToVlMappingTable lanes(NodeIndex node, unsigned in, unsigned out) const;
  /// `block` 1 and 2: low priority; 3 and 4: high priority.
  void set_arbitration(NodeIndex node, unsigned port, unsigned block,
                       const wire::VlArbitrationTable& table);
  wire::VlArbitrationTable arbitration(NodeIndex node, unsigned port, unsigned block) const;
  void set_high_limit(NodeIndex node, unsigned port, std::uint8_t limit);
  void set_p_keys(NodeIndex node, unsigned port, unsigned block, const wire::PKeyTable& table);
  wire::PKeyTable p_keys(NodeIndex node, unsigned port, unsigned block) const;
  /// Whether a switch's port drops what comes in, or would leave, with a P_Key that is not in its
  /// table.
  void set_enforcement(NodeIndex node, unsigned port, bool inbound, bool outbound);
  /// Head-of-queue life, the MTU of the neighbor and the lanes in force, of what leaves by the
  /// port.
  void set_output(NodeIndex node, unsigned port, std::uint64_t hoq_life_us, Mtu neighbor_mtu,
                  wire::VirtualLanes lanes);
  /// LocalPhyErrors of the port.
  void set_local_physical_errors(NodeIndex node, unsigned port, std::uint8_t threshold);
  /// The rate of what leaves by the port; 0: unlimited.
  void set_rate(NodeIndex node, unsigned port, std::uint64_t bits_per_second);
  /// Then the port's links are to be started: what they hold may have to be discarded.
  void set_port_state(NodeIndex node, unsigned port, wire::PortState state);
  void set_cable(NodeIndex node, unsigned port, bool is_up);

  /// A link that waits for credits has waited until `now`, which may be somewhat earlier at the
  /// next call: its mover has a clock of its own. 0: only what is over counts.
  DataCounts counts(NodeIndex node, unsigned port, TimeNs now = 0) const;

 private:
  PortRecord& port(NodeIndex node, unsigned port) const {
    return image_.port(image_.node(node), port);
  }
  void update_passes(LinkIndex link);
  const Image& image_;
};

}  // namespace verbatim::fabric
