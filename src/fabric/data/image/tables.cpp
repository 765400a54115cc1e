#include "fabric/data/image/tables.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kBytesAroundPayload = 126;  // Of the largest packet: NeighborMTU + 126.

DataCounts::OfALink of_link(const LinkRecord& link) {
  DataCounts::OfALink counts{link.counters, link.lanes};
  for (const LinkRecord::Lane& lane : link.lanes) {
    counts.packets += lane.packets;
    counts.words += lane.words;
  }
  return counts;
}

}  // namespace

void Tables::set_linear(NodeIndex node, std::uint32_t block,
                        const wire::LinearForwardingTable& table) {
  for (std::uint32_t i = 0; i < table.ports.size(); ++i) {
    const std::uint32_t lid = block * 64 + i;
    if (lid < kUnicastLids) set_route(node, Lid(lid), table.ports[i]);
  }
}

wire::LinearForwardingTable Tables::linear(NodeIndex node, std::uint32_t block) const {
  wire::LinearForwardingTable table;
  for (std::uint32_t i = 0; i < table.ports.size(); ++i) {
    const std::uint32_t lid = block * 64 + i;
    table.ports[i] = route(node, Lid(lid));
  }
  return table;
}

std::uint8_t Tables::route(NodeIndex node, Lid lid) const {
  if (raw(lid) >= kUnicastLids) return kNoPort;
  return static_cast<std::uint8_t>(image_.linear_entry(image_.node(node), raw(lid)).load() - 1);
}

void Tables::set_route(NodeIndex node, Lid lid, std::uint8_t port) {
  if (image_.node(node).kind != RecordKind::switch_node || raw(lid) >= kUnicastLids) return;
  image_.linear_entry(image_.node(node), raw(lid)) = static_cast<std::uint8_t>(port + 1);
}

void Tables::set_multicast(NodeIndex node, std::uint32_t block, unsigned position,
                           const wire::MulticastForwardingTable& table) {
  if (image_.node(node).kind != RecordKind::switch_node ||
      position >= image_.multicast_positions()) {
    return;
  }
  for (std::uint32_t i = 0; i < table.port_masks.size(); ++i) {
    const std::uint32_t mlid = block * 32 + i;
    if (mlid >= kMulticastLids) return;
    image_.multicast_entry(image_.node(node), mlid, position) = table.port_masks[i];
  }
}

wire::MulticastForwardingTable Tables::multicast(NodeIndex node, std::uint32_t block,
                                                 unsigned position) const {
  wire::MulticastForwardingTable table;
  if (position >= image_.multicast_positions()) return table;
  for (std::uint32_t i = 0; i < table.port_masks.size(); ++i) {
    const std::uint32_t mlid = block * 32 + i;
    if (mlid >= kMulticastLids) break;
    table.port_masks[i] = image_.multicast_entry(image_.node(node), mlid, position);
  }
  return table;
}

void Tables::set_packet_lifetime(NodeIndex node, std::uint64_t lifetime_us) {
  image_.node(node).lifetime_us = static_cast<std::uint32_t>(lifetime_us);
}

void Tables::set_lid(NodeIndex node, Lid lid, std::uint8_t lmc) {
  image_.node(node).lmc = lmc;
  image_.node(node).lid = raw(lid);
}

void Tables::set_router_lid(NodeIndex node, unsigned port_number, Lid lid, std::uint8_t lmc) {
  port(node, port_number).lmc = lmc;
  port(node, port_number).lid = raw(lid);
}

void Tables::set_gid_prefix(NodeIndex node, unsigned port_number, std::uint64_t prefix) {
  port(node, port_number).gid_prefix = prefix;
}

void Tables::set_lanes(NodeIndex node, unsigned in, unsigned out,
                       const wire::SlToVlMappingTable& table) {
  std::uint64_t nibbles = 0;
  for (unsigned sl = 0; sl < table.lanes.size(); ++sl) {
    nibbles |= std::uint64_t{table.lanes[sl] & 15u} << (4 * sl);
  }
  if (in <= image_.node(node).ports && out <= image_.node(node).ports) {
    image_.lanes_by_sl(image_.node(node), in, out) = nibbles;
  }
}

wire::SlToVlMappingTable Tables::lanes(NodeIndex node, unsigned in, unsigned out) const {
  const std::uint64_t nibbles = image_.lanes_by_sl(image_.node(node), in, out);
  wire::SlToVlMappingTable table;
  for (unsigned sl = 0; sl < table.lanes.size(); ++sl) {
    table.lanes[sl] = nibbles >> (4 * sl) & 15;
  }
  return table;
}

void Tables::set_arbitration(NodeIndex node, unsigned port_number, unsigned block,
                             const wire::VlArbitrationTable& table) {
  if (block < 1 || block > 4) return;
  auto& entries = port(node, port_number).arbitration[block >= 3 ? 0 : 1];
  for (unsigned i = 0; i < table.entries.size(); ++i) {
    entries[(block - 1) % 2 * 32 + i] =
        static_cast<std::uint16_t>(table.entries[i].lane | table.entries[i].weight << 8);
  }
}

wire::VlArbitrationTable Tables::arbitration(NodeIndex node, unsigned port_number,
                                             unsigned block) const {
  wire::VlArbitrationTable table;
  if (block < 1 || block > 4) return table;
  const auto& entries = port(node, port_number).arbitration[block >= 3 ? 0 : 1];
  for (unsigned i = 0; i < table.entries.size(); ++i) {
    const std::uint16_t entry = entries[(block - 1) % 2 * 32 + i];
    table.entries[i] = {.lane = static_cast<std::uint8_t>(entry & 15),
                        .weight = static_cast<std::uint8_t>(entry >> 8)};
  }
  return table;
}

void Tables::set_high_limit(NodeIndex node, unsigned port_number, std::uint8_t limit) {
  port(node, port_number).high_limit = limit;
}

void Tables::set_p_keys(NodeIndex node, unsigned port_number, unsigned block,
                        const wire::PKeyTable& table) {
  auto& keys = port(node, port_number).p_keys;
  for (unsigned i = 0; i < table.keys.size() && block * 32 + i < keys.size(); ++i) {
    keys[block * 32 + i] = raw(table.keys[i]);
  }
}

wire::PKeyTable Tables::p_keys(NodeIndex node, unsigned port_number, unsigned block) const {
  const auto& keys = port(node, port_number).p_keys;
  wire::PKeyTable table;
  for (unsigned i = 0; i < table.keys.size() && block * 32 + i < keys.size(); ++i) {
    table.keys[i] = PKey(keys[block * 32 + i].load());
  }
  return table;
}

void Tables::set_enforcement(NodeIndex node, unsigned port_number, bool inbound, bool outbound) {
  NodeRecord& record = image_.node(node);
  if (record.kind != RecordKind::switch_node) return;
  port(node, port_number).enforces =
      static_cast<std::uint8_t>((inbound ? kInbound : 0) | (outbound ? kOutbound : 0));
  bool any = false;
  for (unsigned i = 1; i <= record.ports; ++i) any |= port(node, i).enforces != 0;
  record.enforces = any;
}

void Tables::set_output(NodeIndex node, unsigned port_number, std::uint64_t hoq_life_us,
                        Mtu neighbor_mtu, wire::VirtualLanes lanes) {
  LinkRecord& link = image_.link(port(node, port_number).out);
  link.hoq_life_us = static_cast<std::uint32_t>(hoq_life_us);
  link.bytes_max = static_cast<std::uint16_t>(
      raw(neighbor_mtu) == 0 ? 0 : bytes_of(neighbor_mtu) + kBytesAroundPayload);
  link.lanes_in_force = static_cast<std::uint16_t>((1u << wire::data_lanes_of(lanes)) - 1);
}

void Tables::set_local_physical_errors(NodeIndex node, unsigned port_number,
                                       std::uint8_t threshold) {
  image_.link(port(node, port_number).in).local_physical_errors = threshold;
}

void Tables::set_rate(NodeIndex node, unsigned port_number, std::uint64_t bits_per_second) {
  image_.link(port(node, port_number).out).ps_per_byte = ps_per_byte(bits_per_second);
}

/// Data pass from an active port to one that is at least armed; management also before (IBA 7.2.7).
void Tables::update_passes(LinkIndex index) {
  LinkRecord& link = image_.link(index);
  const PortRecord& from = port(link.start, link.start_port);
  // A trunk's other port knows itself what it takes.
  const PortRecord& to = image_.leads_to_end(index) ? from : port(link.end, link.end_port);
  const auto from_state = static_cast<wire::PortState>(from.state.load());
  const auto to_state = static_cast<wire::PortState>(to.state.load());
  Passes passes = Passes::management;
  if (!from.has_cable_up || !to.has_cable_up || from_state <= wire::PortState::down ||
      to_state <= wire::PortState::down) {
    passes = Passes::nothing;
  } else if (from_state == wire::PortState::active && to_state >= wire::PortState::armed) {
    passes = Passes::all;
  }
  link.passes = static_cast<std::uint8_t>(passes);
}

void Tables::set_port_state(NodeIndex node, unsigned port_number, wire::PortState state) {
  PortRecord& record = port(node, port_number);
  if (record.out == 0) return;
  record.state = raw(state);
  update_passes(record.out);
  if (!image_.comes_from_end(record.in)) update_passes(record.in);
}

void Tables::set_cable(NodeIndex node, unsigned port_number, bool is_up) {
  PortRecord& record = port(node, port_number);
  if (image_.is_of_end(record.out) || record.out == 0) return;
  record.has_cable_up = is_up;
  update_passes(record.out);
  update_passes(record.in);
}

DataCounts Tables::counts(NodeIndex node, unsigned port_number, TimeNs now) const {
  const PortRecord& record = port(node, port_number);
  const LinkRecord& out = image_.link(record.out);
  const LinkRecord& in = image_.link(record.in);
  DataCounts counts{.out = of_link(out),
                    .in = of_link(in),
                    .damage_in = in.damage,
                    .integrity_errors_in = in.integrity_errors,
                    .integrity_errors_out = out.integrity_errors};
  const auto add_wait = [&](TimeNs since, TimeNs& wait_ns) {
    if (since != 0) wait_ns += elapsed(since, now);
  };
  add_wait(out.blocked_at, counts.out.wait_ns);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    add_wait(out.short_since[lane], counts.out.lane_wait_ns[lane]);
  }
  return counts;
}

}  // namespace verbatim::fabric
