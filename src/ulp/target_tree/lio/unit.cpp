// tpgt_N/lun/lun_N, and what an ACL maps to them.
#include <cerrno>

#include <fmt/format.h>

#include "ulp/target_tree/lio/kinds.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target_tree {
namespace {

Answer<std::string> parse_group(const Written& written) {
  const Node* const device = written.directory.linked();
  const std::string_view name = trimmed(written.text);
  if (device == nullptr || device->child("alua")->child(name) == nullptr)
    return std::unexpected(ENODEV);
  return std::string(name);
}

Answer<std::string> show_group(const Attribute& attribute, const Node& unit) {
  const Node* const device = unit.linked();
  if (device == nullptr) return std::unexpected(ENODEV);
  const Node& group = *device->child("alua")->child(unit.value(attribute.name));
  const bool is_offline = unit.is_set("alua_tg_pt_offline");
  constexpr std::string_view kStatuses[] = {"None", "Altered by Explicit STPG",
                                            "Altered by Implicit ALUA"};
  return fmt::format(
      "TG Port Alias: {}\nTG Port Group ID: {}\nTG Port Primary Access State: {}\n"
      "TG Port Primary Access Status: {}\nTG Port Secondary Access State: {}\n"
      "TG Port Secondary Access Status: {}\n",
      group.name, group.value("tg_pt_gp_id"), alua_state_name(group),
      group.value("alua_access_status"), is_offline ? "Offline" : "None",
      kStatuses[*number_of(unit.value("alua_tg_pt_status"))]);
}

constexpr Attribute kUnitAttributes[] = {
    {.name = "alua_tg_pt_gp", .value = kDefaultAluaGroup, .parse = parse_group, .show = show_group},
    {.name = "alua_tg_pt_offline", .value = "0", .parse = parse_strict, .high = 1},
    {.name = "alua_tg_pt_status", .value = "0", .parse = parse_strict, .high = 2},
    {.name = "alua_tg_pt_write_md", .value = "0", .parse = parse_strict, .high = 1}};
constexpr Group kUnitGroups[] = {{"statistics", &kUnitStatistics}};

int link_device(const Node& unit, const Node& target) {
  if (!is_device(target)) return EFAULT;
  if (unit.linked() != nullptr) return EEXIST;
  return target.is_set("enable") ? 0 : ENODEV;
}

// --- acls/NAME/lun_N

/// Taken without effect before it is linked.
Answer<std::string> parse_protection(const Written& written) {
  if (written.directory.linked() != nullptr) return parse_strict(written);
  return written.directory.value(written.attribute.name);
}
Answer<std::string> show_protection(const Attribute& attribute, const Node& unit) {
  if (unit.linked() == nullptr) return "";
  return show_line(attribute, unit);
}

int link_unit(const Node& mapped, const Node& target) {
  if (target.kind != &kUnit) return EFAULT;
  const Node* const portal_group = mapped.parent->parent->parent;
  return target.parent->parent != portal_group || mapped.linked() != nullptr ? EINVAL : 0;
}

constexpr Attribute kMappedAttributes[] = {{.name = "write_protect",
                                            .value = "0",
                                            .parse = parse_protection,
                                            .high = 1,
                                            .show = show_protection}};
constexpr Group kMappedGroups[] = {{"statistics", &kMappedStatistics}};
constexpr Kind kMappedUnit{.attributes = kMappedAttributes,
                           .groups = kMappedGroups,
                           .link = link_unit,
                           .linked = [](Node& mapped) { mapped.set("write_protect", "0"); }};

}  // namespace

constexpr Kind kUnit{
    .attributes = kUnitAttributes,
    .groups = kUnitGroups,
    .link = link_device,
    .linked = [](Node& unit) { unit.set("alua_tg_pt_gp", std::string(kDefaultAluaGroup)); }};
constexpr Kind kUnits{.child = [](const Node&, std::string_view name) -> Answer<const Kind*> {
  if (!number_after("lun_", name)) return std::unexpected(EINVAL);
  return &kUnit;
}};

Answer<const Kind*> mapped_unit(const Node& /*acl*/, std::string_view name) {
  if (!number_after("lun_", name)) return std::unexpected(EINVAL);
  return &kMappedUnit;
}

}  // namespace verbatim::ulp::target_tree
