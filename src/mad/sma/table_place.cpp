#include "mad/sma/table_place.h"

#include "mad/sma/node_tables.h"
#include "wire/subnet/tables.h"

namespace verbatim::mad {
namespace {

using wire::MadStatus;
using wire::SubnetAttribute;
using Result = std::expected<TablePlace, MadStatus>;

Result invalid() { return std::unexpected(MadStatus::invalid_value); }

/// Adapters answer for the port of arrival, whatever the upper half of the modifier says.
Result p_key_place(const SubnetNode& node, std::uint8_t arrival, std::uint32_t modifier) {
  const auto named = wire::modifier_as<wire::PKeyTableModifier>(modifier);
  const std::uint16_t port = node.is_switch() ? named.port : arrival;
  if (port > node.info.ports) return invalid();
  const bool is_port_0 = node.is_switch() && port == 0;
  const unsigned keys = is_port_0 ? kSwitchPort0PKeys : kPortPKeys;
  if (named.block >= keys / wire::PKeyTable::kEntries) return invalid();
  return TablePlace{.port = static_cast<std::uint8_t>(port), .block = named.block};
}

/// The upper half of the modifier is optimized programming, which the agent does not claim to have.
Result sl_to_vl_place(const SubnetNode& node, std::uint8_t arrival, std::uint32_t modifier) {
  if (modifier >> 16 != 0) return invalid();
  if (!node.is_switch()) return TablePlace{.port = arrival};
  const auto named = wire::modifier_as<wire::SlToVlModifier>(modifier);
  if (named.input_port > node.info.ports || named.output_port > node.info.ports) return invalid();
  // What goes to a base port 0 is mapped by nothing; an enhanced one is as a host's (IBA 14.2.5.8).
  if (named.output_port == 0 && !node.switch_info->enhanced_port_0) return invalid();
  return TablePlace{.port = named.output_port, .input = named.input_port};
}

/// Tables of at most 32 entries have one block each, 1 and 3.
Result arbitration_place(const SubnetNode& node, std::uint8_t arrival, std::uint32_t modifier) {
  static_assert(kArbitrationEntries <= 32);
  const auto named = wire::modifier_as<wire::VlArbitrationModifier>(modifier);
  if (named.block != 1 && named.block != 3) return invalid();
  const std::uint16_t port = node.is_switch() ? named.port : arrival;
  if (port == 0 || port > node.info.ports) return invalid();
  return TablePlace{.port = static_cast<std::uint8_t>(port), .block = named.block};
}

Result linear_place(const SubnetNode& node, std::uint32_t modifier) {
  if (!node.is_switch()) return std::unexpected(MadStatus::unsupported_attribute);
  if (modifier >= kLinearLids / wire::LinearForwardingTable::kEntries) return invalid();
  return TablePlace{.block = static_cast<std::uint16_t>(modifier)};
}

Result multicast_place(const SubnetNode& node, std::uint32_t modifier) {
  if (!node.is_switch()) return std::unexpected(MadStatus::unsupported_attribute);
  const auto named = wire::modifier_as<wire::MulticastForwardingModifier>(modifier);
  if (named.block >= kMulticastLids / wire::MulticastForwardingTable::kEntries) return invalid();
  if (named.position > node.info.ports / wire::MulticastForwardingTable::kPorts) return invalid();
  return TablePlace{.block = named.block, .position = named.position};
}

Result guid_place(const SubnetNode& node, std::uint8_t arrival, std::uint32_t modifier) {
  const std::uint8_t port = node.is_switch() ? 0 : arrival;
  const unsigned guids = node.ports[port].info.guid_cap;
  if (modifier >= (guids + 7) / wire::GuidInfo::kEntries) return invalid();
  return TablePlace{.port = port, .block = static_cast<std::uint16_t>(modifier)};
}

}  // namespace

Result table_place(const SubnetNode& node, std::uint8_t arrival, const wire::Smp& smp) {
  switch (smp.attribute) {
    case SubnetAttribute::p_key_table:
      return p_key_place(node, arrival, smp.modifier);
    case SubnetAttribute::sl_to_vl_mapping_table:
      return sl_to_vl_place(node, arrival, smp.modifier);
    case SubnetAttribute::vl_arbitration_table:
      return arbitration_place(node, arrival, smp.modifier);
    case SubnetAttribute::linear_forwarding_table:
      return linear_place(node, smp.modifier);
    case SubnetAttribute::multicast_forwarding_table:
      return multicast_place(node, smp.modifier);
    case SubnetAttribute::guid_info:
      return guid_place(node, arrival, smp.modifier);
    default:
      return std::unexpected(MadStatus::unsupported_attribute);
  }
}

}  // namespace verbatim::mad
