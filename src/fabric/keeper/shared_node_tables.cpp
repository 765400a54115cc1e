#include "fabric/keeper/shared_node_tables.h"

#include "mad/sma/initial_tables.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::fabric {
namespace {

/// 4.096 us * 2^exponent, rounded up; 0 from `unlimited` on.
std::uint64_t microseconds(std::uint8_t exponent, std::uint8_t unlimited) {
  return exponent >= unlimited ? 0 : ((4096ULL << exponent) + 999) / 1000;
}

/// Ports of the topology's node, each of which is a node of the image if it is an adapter's.
unsigned ports_of(const Image& image, NodeIndex first) {
  if (image.node(first).kind != RecordKind::host) return image.node(first).ports;
  unsigned ports = 0;
  while (image.node(first + ports).kind == RecordKind::host &&
         image.node(first + ports).topology_node == image.node(first).topology_node) {
    ++ports;
  }
  return ports;
}

}  // namespace

SharedNodeTables::SharedNodeTables(SharedFabric& fabric, Mover& mover, std::uint32_t topology_node,
                                   Pace pace)
    : fabric_(fabric),
      mover_(mover),
      first_node_(fabric.image().station_of({topology_node, 0})),
      kind_(fabric.image().node(first_node_).kind),
      pace_(pace),
      ports_(ports_of(fabric.image(), first_node_)) {
  set_initial_tables();
}

void SharedNodeTables::set_initial_tables() {
  wire::PKeyTable p_keys;
  p_keys.keys[0] = kDefaultPKey;
  for (unsigned port = 0; port <= ports_; ++port) {
    if (!is_switch() && port == 0) continue;
    for (unsigned input = 0; input <= (is_switch() ? ports_ : 0); ++input) {
      set_sl_to_vl(input, port, mad::initial_lanes(port));
    }
    set_vl_arbitration(port, 1, mad::initial_arbitration(1));
    set_p_keys(port, 0, p_keys);
  }
}

SharedNodeTables::Place SharedNodeTables::place_of(unsigned port) const {
  if (kind_ != RecordKind::host) return {.node = first_node_, .port = port};
  return {.node = first_node_ + (port == 0 ? 0 : port - 1), .port = kCablePort};
}

std::uint8_t SharedNodeTables::output_port(Lid lid) const {
  return tables().route(first_node_, lid);
}

wire::LinearForwardingTable SharedNodeTables::linear(unsigned block) const {
  return tables().linear(first_node_, block);
}

void SharedNodeTables::set_linear(unsigned block, const wire::LinearForwardingTable& table) {
  tables().set_linear(first_node_, block, table);
}

wire::MulticastForwardingTable SharedNodeTables::multicast(unsigned block,
                                                           unsigned position) const {
  return tables().multicast(first_node_, block, position);
}

void SharedNodeTables::set_multicast(unsigned block, unsigned position,
                                     const wire::MulticastForwardingTable& table) {
  tables().set_multicast(first_node_, block, position, table);
}

wire::SlToVlMappingTable SharedNodeTables::sl_to_vl(unsigned input, unsigned output) const {
  const Place place = place_of(output);
  return tables().lanes(place.node, input, place.port);
}

/// A port of a host or router has one table, which all that leaves by its cable uses.
void SharedNodeTables::set_sl_to_vl(unsigned input, unsigned output,
                                    const wire::SlToVlMappingTable& table) {
  const Place place = place_of(output);
  if (is_switch()) return tables().set_lanes(place.node, input, output, table);
  for (unsigned in = 0; in <= fabric_.image().node(place.node).ports; ++in) {
    tables().set_lanes(place.node, in, place.port, table);
  }
}

wire::VlArbitrationTable SharedNodeTables::vl_arbitration(unsigned port, unsigned block) const {
  const Place place = place_of(port);
  return tables().arbitration(place.node, place.port, block);
}

void SharedNodeTables::set_vl_arbitration(unsigned port, unsigned block,
                                          const wire::VlArbitrationTable& table) {
  const Place place = place_of(port);
  tables().set_arbitration(place.node, place.port, block, table);
}

std::span<const std::uint16_t> SharedNodeTables::p_keys(unsigned port) const {
  const Place place = place_of(port);
  const auto& keys = fabric_.image().port(fabric_.image().node(place.node), place.port).p_keys;
  // The agents are the only ones who write it, in the thread that reads it here.
  static_assert(sizeof keys[0] == sizeof(std::uint16_t));
  static_assert(kPKeys >= mad::kPortPKeys);
  return {reinterpret_cast<const std::uint16_t*>(keys.data()), mad::kPortPKeys};
}

void SharedNodeTables::set_p_keys(unsigned port, unsigned block, const wire::PKeyTable& table) {
  const Place place = place_of(port);
  tables().set_p_keys(place.node, place.port, block, table);
}

void SharedNodeTables::set_port(unsigned port, const wire::PortInfo& info) {
  if (is_switch() && port == 0) return;  // It has no link.
  const Place place = place_of(port);
  // Packets of hosts have no limit: they wait in the program.
  const std::uint64_t hoq_life_us =
      is_switch() ? microseconds(info.head_of_queue_life, wire::PortInfo::kUnlimitedHeadOfQueueLife)
                  : 0;
  tables().set_output(place.node, place.port, hoq_life_us, info.neighbor_mtu, info.operational_vls);
  tables().set_local_physical_errors(place.node, place.port, info.local_physical_errors);
  tables().set_enforcement(place.node, place.port, info.partition_enforcement_inbound,
                           info.partition_enforcement_outbound);
  tables().set_high_limit(place.node, place.port, info.vl_high_limit);
  if (kind_ == RecordKind::host) tables().set_lid(place.node, info.lid, info.lmc);
  if (kind_ == RecordKind::router) {
    tables().set_router_lid(place.node, place.port, info.lid, info.lmc);
  }
  if (!is_switch()) tables().set_gid_prefix(place.node, place.port, info.gid_prefix);
  const auto speed = wire::active_speed(info);
  if (pace_ == Pace::by_link && speed) {
    tables().set_rate(place.node, place.port, effective_rate_bps(info.width_active, *speed));
  }
  fabric_.set_port_state(mover_, place.node, place.port, info.state);
}

void SharedNodeTables::set_switch(const wire::SwitchInfo& info) {
  tables().set_packet_lifetime(first_node_,
                               microseconds(info.lifetime, wire::SwitchInfo::kUnlimitedLifetime));
}

}  // namespace verbatim::fabric
