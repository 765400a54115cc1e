#include "ulp/target/tree/alua/port_groups.h"

#include <algorithm>
#include <ranges>

#include "base/types.h"
#include "ulp/target/tree/tree_part.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

/// As the attribute shows it, by its number.
constexpr const char* kStatuses[] = {"None", "Altered by Explicit STPG",
                                     "Altered by Implicit ALUA"};

struct SupportRow {
  const char* attribute;
  std::uint8_t bit;  // SPC-4, 6.37.
};
constexpr SupportRow kSupported[] = {
    {"alua_support_active_optimized", 0x01}, {"alua_support_active_nonoptimized", 0x02},
    {"alua_support_standby", 0x04},          {"alua_support_unavailable", 0x08},
    {"alua_support_lba_dependent", 0x10},    {"alua_support_offline", 0x40},
    {"alua_support_transitioning", 0x80},
};

scsi::PortGroup port_group_of(const Node& group) {
  const std::string type = text_of(group, "alua_access_type");
  const auto status = std::ranges::find(kStatuses, text_of(group, "alua_access_status"));
  scsi::PortGroup out{
      .name = group.name,
      .id = static_cast<std::uint16_t>(number_of(group, "tg_pt_gp_id")),
      .state = scsi::AccessState{static_cast<std::uint8_t>(number_of(group, "alua_access_state"))},
      .status = scsi::AccessStatus{static_cast<std::uint8_t>(
          status == std::end(kStatuses) ? 0 : status - std::begin(kStatuses))},
      .supported = 0,
      .transition_seconds = static_cast<std::uint8_t>(number_of(group, "implicit_trans_secs")),
      .is_preferred = group.is_set("preferred"),
      .is_implicit = type.find("Implicit") != std::string::npos,
      .is_explicit = type.find("Explicit") != std::string::npos,
      .ports = {}};
  for (const SupportRow& row : kSupported)
    if (group.is_set(row.attribute)) out.supported |= row.bit;
  return out;
}

/// Of a LUN: its portal group. All folders of srpt are one port.
std::string port_of(const Node& unit) {
  const Node& group = *unit.parent->parent;
  const Node& fabric = *group.parent->parent;
  return fabric.name == "srpt" ? fabric.path() : group.path();
}

}  // namespace

std::uint16_t PortNumbers::of(const std::string& path) {
  if (const auto known = numbers_.find(path); known != numbers_.end()) return known->second;
  std::uint16_t number = 1;
  while (std::ranges::any_of(numbers_, [&](const auto& one) { return one.second == number; }))
    ++number;
  return numbers_[path] = number;
}

std::vector<scsi::PortGroup> port_groups_of(const Node& device, PortNumbers& numbers) {
  std::vector<scsi::PortGroup> groups;
  // The oldest first.
  for (const auto& group : std::views::reverse(device.child("alua")->children))
    if (!text_of(*group, "tg_pt_gp_id").empty()) groups.push_back(port_group_of(*group));
  const auto has = [](const scsi::PortGroup& group, std::uint16_t port) {
    return std::ranges::find(group.ports, port, &scsi::PortGroup::Member::port) !=
           group.ports.end();
  };
  for (const Node* const link : device.links_here) {
    const Node& unit = *link->parent;
    const std::uint16_t port = numbers.of(port_of(unit));
    // Two LUNs of one portal group: a port is in one group alone.
    if (std::ranges::any_of(groups, [&](const auto& group) { return has(group, port); })) continue;
    const auto named =
        std::ranges::find(groups, unit.value("alua_tg_pt_gp"), &scsi::PortGroup::name);
    scsi::PortGroup& group = named == groups.end() ? groups.front() : *named;
    group.ports.push_back({.port = port, .is_offline = unit.is_set("alua_tg_pt_offline")});
  }
  return groups;
}

std::map<std::string, std::string> attributes_of(const scsi::PortGroup& group) {
  return {{"alua_access_state", std::to_string(raw(group.state))},
          {"alua_access_status", kStatuses[raw(group.status)]}};
}

}  // namespace verbatim::ulp::target
