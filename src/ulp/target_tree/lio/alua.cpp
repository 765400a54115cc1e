// core/P_N/NAME/alua: groups of ports with one access state.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

const Node& device_of(const Node& group) { return *group.parent->parent; }

bool is_taken(const Node& groups, std::string_view id) {
  return std::ranges::any_of(groups.children,
                             [&](const auto& group) { return group->value("tg_pt_gp_id") == id; });
}

int refuse_second_id(const Node& group) { return group.value("tg_pt_gp_id").empty() ? 0 : EINVAL; }

/// 0 asks for the first number that is free.
Answer<std::string> parse_id(const Written& written) {
  auto id = parse_strict(written);
  if (!id) return id;
  const Node& groups = *written.directory.parent;
  if (*id != "0") {
    if (is_taken(groups, *id)) return std::unexpected(EINVAL);
    return id;
  }
  for (std::uint32_t next = 0; next <= written.attribute.high; ++next)
    if (!is_taken(groups, std::to_string(next))) return std::to_string(next);
  return std::unexpected(EINVAL);
}

int refuse_state(const Node& group) {
  const bool is_implicit = group.value("alua_access_type").starts_with("Implicit");
  const bool is_ready = !group.value("tg_pt_gp_id").empty() && device_of(group).is_set("enable");
  return is_implicit && is_ready ? 0 : EINVAL;
}

Answer<std::string> parse_state(const Written& written) {
  const auto state = number_of(written.text);
  if (!state || (*state > 3 && *state != 14)) return std::unexpected(EINVAL);
  return std::to_string(*state);
}

void note_state(Node& group, const std::string& before) {
  if (group.value("alua_access_state") != before)
    group.set("alua_access_status", "Altered by Implicit ALUA");
}

/// FABRIC/TARGET/GROUP/LUN of each LUN in the group, each with a newline and a zero.
Answer<std::string> show_members(const Attribute& /*attribute*/, const Node& group) {
  std::string text;
  for (const Node* link : device_of(group).links_here) {
    const Node& unit = *link->parent;
    if (unit.value("alua_tg_pt_gp") != group.name) continue;
    const Node& portal_group = *unit.parent->parent;
    const Node& target = *portal_group.parent;
    const std::string& fabric = target.parent->name;
    text += (fabric == "iscsi" ? "iSCSI" : fabric) + "/" + target.name + "/" + portal_group.name +
            "/" + unit.name + "\n" + '\0';
  }
  return text;
}

/// LUNs of a group that goes are the default group's.
void leave_group(Node& group) {
  for (const Node* link : device_of(group).links_here)
    if (link->parent->value("alua_tg_pt_gp") == group.name)
      link->parent->set("alua_tg_pt_gp", std::string(kDefaultAluaGroup));
}

constexpr Attribute kAttributes[] = {
    {.name = "alua_access_state",
     .value = "0",
     .parse = parse_state,
     .guard = refuse_state,
     .after = note_state},
    {.name = "alua_access_status",
     .value = "None",
     .parse = parse_word_number,
     .words = kAluaStatuses},
    {.name = "alua_access_type",
     .value = "Implicit and Explicit",
     .parse = parse_word_number,
     .words = "None|Implicit|Explicit|Implicit and Explicit"},
    {.name = "alua_support_active_nonoptimized", .value = "1", .parse = parse_strict, .high = 1},
    {.name = "alua_support_active_optimized", .value = "1", .parse = parse_strict, .high = 1},
    {.name = "alua_support_lba_dependent", .value = "0", .parse = parse_strict, .high = 1},
    {.name = "alua_support_offline", .value = "1", .parse = parse_strict, .high = 1},
    {.name = "alua_support_standby", .value = "1", .parse = parse_strict, .high = 1},
    {.name = "alua_support_transitioning", .value = "1", .parse = parse_strict, .high = 1},
    {.name = "alua_support_unavailable", .value = "1", .parse = parse_strict, .high = 1},
    {.name = "alua_write_metadata", .value = "0", .parse = parse_strict, .high = 1},
    {.name = "implicit_trans_secs", .value = "0", .parse = parse_strict, .high = 255},
    {.name = "members", .mode = kReadOnly, .show = show_members},
    {.name = "nonop_delay_msecs", .value = "100", .parse = parse_strict, .high = 10000},
    {.name = "preferred", .value = "0", .parse = parse_strict, .high = 1},
    {.name = "tg_pt_gp_id",
     .parse = parse_id,
     .high = 65535,
     .guard = refuse_second_id,
     .show = show_or_nothing},
    {.name = "trans_delay_msecs", .value = "0", .parse = parse_strict, .high = 30000}};

consteval auto default_attributes() {
  auto all = std::to_array(kAttributes);
  for (Attribute& attribute : all)
    if (attribute.name == "tg_pt_gp_id") attribute.value = "0";
  return all;
}
constexpr auto kDefaultAttributes = default_attributes();

constexpr Kind kGroup{.attributes = kAttributes, .removed = leave_group};
constexpr Kind kDefaultGroup{.attributes = kDefaultAttributes};
constexpr Group kGroups[] = {{kDefaultAluaGroup, &kDefaultGroup}};

}  // namespace

constexpr Kind kAluaGroups{
    .groups = kGroups,
    .child = [](const Node&, std::string_view) -> Answer<const Kind*> { return &kGroup; }};

std::string_view alua_state_name(const Node& group) {
  constexpr std::string_view kNames[] = {"Active/Optimized", "Active/NonOptimized", "Standby",
                                         "Unavailable"};
  const std::uint32_t state = number_of(group.value("alua_access_state")).value_or(0);
  return state < std::size(kNames) ? kNames[state] : "Offline";
}

}  // namespace verbatim::ulp::target_tree
