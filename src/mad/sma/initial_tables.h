#pragma once

#include <cstddef>
#include <cstdint>

#include "mad/sma/node_tables.h"

/// What the tables of a node say before a manager has written to them.
namespace verbatim::mad {

/// Service levels share the lanes in turn. Port 0 of a switch has one lane.
inline wire::SlToVlMappingTable initial_lanes(unsigned output) {
  wire::SlToVlMappingTable table;
  if (output == 0) return table;
  for (std::size_t level = 0; level < table.lanes.size(); ++level) {
    table.lanes[level] = static_cast<std::uint8_t>(level % wire::data_lanes_of(kDataLanes));
  }
  return table;
}

/// Every lane has a turn in the low table; the high one is empty.
inline wire::VlArbitrationTable initial_arbitration(unsigned block) {
  wire::VlArbitrationTable table;
  if (block != 1) return table;
  for (unsigned lane = 0; lane < wire::data_lanes_of(kDataLanes); ++lane) {
    table.entries[lane] = {.lane = static_cast<std::uint8_t>(lane), .weight = 64};
  }
  return table;
}

}  // namespace verbatim::mad
