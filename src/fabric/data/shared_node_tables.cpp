#include "fabric/data/shared_node_tables.h"

namespace verbatim::fabric {
namespace {

/// 4.096 us * 2^exponent; 0 from `unlimited` on.
std::uint64_t microseconds(std::uint8_t exponent, std::uint8_t unlimited) {
  return exponent >= unlimited ? 0 : ((4096ULL << exponent) + 999) / 1000;
}

}  // namespace

bool SharedNodeTables::is_switch() const {
  return fabric_.image().node(place_of(0).node).kind == RecordKind::switch_node;
}

SharedNodeTables::Place SharedNodeTables::place_of(unsigned port) const {
  const NodeIndex node =
      fabric_.image().station_of({topology_node_, static_cast<std::uint8_t>(port)});
  const bool is_of_switch = fabric_.image().node(node).kind == RecordKind::switch_node;
  return {.node = node, .port = is_of_switch ? port : kCablePort};
}

std::uint8_t SharedNodeTables::output_port(Lid lid) const {
  return raw(lid) < kUnicastLids ? linear(raw(lid) / 64).ports[raw(lid) % 64] : kNoPort;
}

wire::LinearForwardingTable SharedNodeTables::linear(unsigned block) const {
  return tables().linear(place_of(0).node, block);
}

void SharedNodeTables::set_linear(unsigned block, const wire::LinearForwardingTable& table) {
  tables().set_linear(place_of(0).node, block, table);
}

wire::MulticastForwardingTable SharedNodeTables::multicast(unsigned block,
                                                           unsigned position) const {
  return tables().multicast(place_of(0).node, block, position);
}

void SharedNodeTables::set_multicast(unsigned block, unsigned position,
                                     const wire::MulticastForwardingTable& table) {
  tables().set_multicast(place_of(0).node, block, position, table);
}

/// A host's port has one table, which all that leaves by its cable uses.
wire::SlToVlMappingTable SharedNodeTables::sl_to_vl(unsigned input, unsigned output) const {
  const Place place = place_of(output);
  return tables().lanes(place.node, is_switch() ? input : 0, place.port);
}

void SharedNodeTables::set_sl_to_vl(unsigned input, unsigned output,
                                    const wire::SlToVlMappingTable& table) {
  const Place place = place_of(output);
  if (is_switch()) return tables().set_lanes(place.node, input, output, table);
  for (unsigned in = 0; in <= kHostPorts; ++in) {
    tables().set_lanes(place.node, in, kCablePort, table);
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
  static_assert(sizeof(keys[0]) == sizeof(std::uint16_t));
  return {reinterpret_cast<const std::uint16_t*>(keys.data()), keys.size()};
}

void SharedNodeTables::set_p_keys(unsigned port, unsigned block, const wire::PKeyTable& table) {
  const Place place = place_of(port);
  tables().set_p_keys(place.node, place.port, block, table);
}

void SharedNodeTables::set_port(unsigned port, const wire::PortInfo& info) {
  const Place place = place_of(port);
  if (is_switch() && port == 0) return;  // It is the node itself.
  const std::uint64_t hoq_life_us =
      is_switch() ? microseconds(info.head_of_queue_life, wire::PortInfo::kUnlimitedHeadOfQueueLife)
                  : 0;
  tables().set_output(place.node, place.port, hoq_life_us, info.neighbor_mtu, info.operational_vls);
  tables().set_high_limit(place.node, place.port, info.vl_high_limit);
  if (!is_switch()) tables().set_lid(place.node, info.lid, info.lmc);
  fabric_.set_port_state(mover_, place.node, place.port, info.state);
}

void SharedNodeTables::set_switch(const wire::SwitchInfo& info) {
  tables().set_packet_lifetime(place_of(0).node,
                               microseconds(info.lifetime, wire::SwitchInfo::kUnlimitedLifetime));
}

}  // namespace verbatim::fabric
