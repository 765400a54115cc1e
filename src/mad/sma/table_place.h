#pragma once

#include <cstdint>
#include <expected>

#include "mad/sma/subnet_node.h"
#include "wire/subnet/smp.h"

namespace verbatim::mad {

/// Which part of a node's tables an SMP reads or writes, as its attribute modifier says.
struct TablePlace {
  std::uint8_t port = 0;   // SLtoVLMappingTable: the output port.
  std::uint8_t input = 0;  // SLtoVLMappingTable of a switch.
  std::uint16_t block = 0;
  std::uint8_t position = 0;  // MulticastForwardingTable.
};

/// `invalid_value` where the node has no such port or block, `unsupported_attribute` where it has
/// no such table. `arrival`: the port by which the SMP came.
std::expected<TablePlace, wire::MadStatus> table_place(const SubnetNode& node, std::uint8_t arrival,
                                                       const wire::Smp& smp);

}  // namespace verbatim::mad
