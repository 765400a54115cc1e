// What managers and switches take as given: GUIDs that name one port each, and service levels that
// some lane carries.
#include <algorithm>
#include <bit>
#include <map>

#include <fmt/format.h>

#include "fabric/check/check.h"

namespace verbatim::fabric {
namespace {

/// "8 to 14", "3, 5".
std::string text_of(LevelSet levels) {
  std::vector<std::string> parts;
  for (unsigned first = 0; first < kServiceLevels; ++first) {
    if ((levels >> first & 1) == 0) continue;
    unsigned last = first;
    while (last + 1 < kServiceLevels && (levels >> (last + 1) & 1) != 0) ++last;
    parts.push_back(first == last ? fmt::format("{}", first)
                                  : fmt::format("{} to {}", first, last));
    first = last;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Those that a packet between two cables of the switch may have.
LevelSet carried_by(const Snapshot& snapshot, std::uint32_t index, const Cables& cables) {
  const NodeSnapshot& node = snapshot.nodes[index];
  const auto has_cable = [&](unsigned port) {
    return cables.leaving({index, static_cast<std::uint8_t>(port)}).has_value();
  };
  unsigned levels = 0;
  for (unsigned in = 1; in < node.ports.size(); ++in) {
    for (unsigned out = 1; out < node.ports.size() && has_cable(in); ++out) {
      if (in == out || !has_cable(out)) continue;
      for (unsigned level = 0; level < kServiceLevels; ++level) {
        const unsigned lane = node.lane(in, out, level);
        if (lane != kNoLane && lane < node.ports[out].data_lanes) levels |= 1u << level;
      }
    }
  }
  return static_cast<LevelSet>(levels);
}

}  // namespace

std::vector<std::string> find_shared_guids(const Snapshot& snapshot) {
  std::map<std::uint64_t, std::vector<std::string>> ports;
  for (std::uint32_t i = 0; i < snapshot.nodes.size(); ++i) {
    const NodeSnapshot& node = snapshot.nodes[i];
    for (unsigned port = 0; port < node.ports.size(); ++port) {
      if (node.ports[port].guid == 0) continue;
      const PortPlace place{i, static_cast<std::uint8_t>(port)};
      ports[node.ports[port].guid].push_back(text_of(snapshot, place));
    }
  }
  std::vector<std::string> findings;
  for (const auto& [guid, names] : ports) {
    if (names.size() < 2) continue;
    findings.push_back(
        fmt::format("{} have one GUID, {:#x}: a subnet manager takes them for one port",
                    fmt::join(names, " and "), guid));
  }
  return findings;
}

std::vector<std::string> find_lost_levels(const Snapshot& snapshot) {
  const Cables cables(snapshot);
  LevelSet carried = 0;
  bool has_path = false;
  for (std::uint32_t i = 0; i < snapshot.nodes.size(); ++i) {
    if (!snapshot.nodes[i].is_switch()) continue;
    const LevelSet levels = carried_by(snapshot, i, cables);
    has_path |= levels != 0;
    carried |= levels;
  }
  const auto lost = static_cast<LevelSet>(~carried);
  if (!has_path || lost == 0) return {};
  return {fmt::format("no switch carries service level{} {}: what has {} is dropped",
                      std::has_single_bit(lost) ? "" : "s", text_of(lost),
                      std::has_single_bit(lost) ? "it" : "them")};
}

}  // namespace verbatim::fabric
