// Get and Set of the attributes that are tables of several blocks.
#include <algorithm>

#include "mad/sma/subnet_agent.h"
#include "mad/sma/table_place.h"
#include "wire/subnet/tables.h"

namespace verbatim::mad {
namespace {

using wire::MadStatus;
using wire::Smp;
using wire::SubnetAttribute;

wire::PKeyTable p_key_block(std::span<const std::uint16_t> keys, unsigned block) {
  wire::PKeyTable table;
  const std::size_t first = std::size_t{block} * table.keys.size();
  for (std::size_t i = 0; i < table.keys.size() && first + i < keys.size(); ++i) {
    table.keys[i] = static_cast<PKey>(keys[first + i]);
  }
  return table;
}

/// Entry 0 of block 0 is the port's own GUID.
wire::GuidInfo guid_block(const SubnetPort& port, unsigned block) {
  wire::GuidInfo info;
  for (std::size_t i = 0; i < info.guids.size(); ++i) {
    const std::size_t entry = block * info.guids.size() + i;
    if (entry == 0) info.guids[i] = port.guid;
    if (entry > 0 && entry <= port.alias_guids.size()) info.guids[i] = port.alias_guids[entry - 1];
  }
  return info;
}

void set_guid_block(SubnetPort& port, unsigned block, const wire::GuidInfo& info) {
  port.alias_guids.resize(port.info.guid_cap - 1u);
  for (std::size_t i = 0; i < info.guids.size(); ++i) {
    const std::size_t entry = block * info.guids.size() + i;
    if (entry > 0 && entry <= port.alias_guids.size()) port.alias_guids[entry - 1] = info.guids[i];
  }
}

/// The table ends with what the port says that it has.
wire::VlArbitrationTable cut(wire::VlArbitrationTable table) {
  std::fill(table.entries.begin() + kArbitrationEntries, table.entries.end(),
            wire::VlArbitrationEntry{});
  return table;
}

}  // namespace

MadStatus SubnetAgent::get_table(std::uint8_t arrival, Smp& smp) const {
  const auto place = table_place(node_, arrival, smp);
  if (!place) return place.error();
  switch (smp.attribute) {
    case SubnetAttribute::p_key_table:
      wire::set_data(smp, p_key_block(tables_.p_keys(place->port), place->block));
      break;
    case SubnetAttribute::sl_to_vl_mapping_table:
      wire::set_data(smp, tables_.sl_to_vl(place->input, place->port));
      break;
    case SubnetAttribute::vl_arbitration_table:
      encode(tables_.vl_arbitration(place->port, place->block), std::span(smp.data));
      break;
    case SubnetAttribute::linear_forwarding_table:
      wire::set_data(smp, tables_.linear(place->block));
      break;
    case SubnetAttribute::multicast_forwarding_table:
      wire::set_data(smp, tables_.multicast(place->block, place->position));
      break;
    default:
      wire::set_data(smp, guid_block(node_.ports[place->port], place->block));
  }
  return Status::ok;
}

MadStatus SubnetAgent::set_table(std::uint8_t arrival, const Smp& smp, SubnetEffects& out) {
  const auto place = table_place(node_, arrival, smp);
  if (!place) return place.error();
  switch (smp.attribute) {
    case SubnetAttribute::p_key_table:
      tables_.set_p_keys(place->port, place->block, wire::data_as<wire::PKeyTable>(smp));
      out.changed_port = place->port;
      break;
    case SubnetAttribute::sl_to_vl_mapping_table:
      tables_.set_sl_to_vl(place->input, place->port, wire::data_as<wire::SlToVlMappingTable>(smp));
      break;
    case SubnetAttribute::vl_arbitration_table:
      tables_.set_vl_arbitration(place->port, place->block,
                                 cut(wire::decode_vl_arbitration_table(smp.data)));
      break;
    case SubnetAttribute::linear_forwarding_table:
      tables_.set_linear(place->block, wire::data_as<wire::LinearForwardingTable>(smp));
      break;
    case SubnetAttribute::multicast_forwarding_table:
      tables_.set_multicast(place->block, place->position,
                            wire::data_as<wire::MulticastForwardingTable>(smp));
      break;
    default:
      set_guid_block(node_.ports[place->port], place->block, wire::data_as<wire::GuidInfo>(smp));
      out.changed_port = place->port;
  }
  return Status::ok;
}

}  // namespace verbatim::mad
