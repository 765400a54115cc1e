#pragma once

#include <string_view>

#include "ulp/target_tree/kind.h"
#include "ulp/target_tree/node.h"

/// What the files of LIO's tree share.
namespace verbatim::ulp::target_tree {

/// A group without anything in it.
inline constexpr Kind kEmpty{};

// Backstores: core/P_N/NAME.
extern const Kind kCore;
extern const Kind kFileDevice;
extern const Kind kRamDevice;
inline bool is_device(const Node& node) {
  return node.kind == &kFileDevice || node.kind == &kRamDevice;
}
/// A device's attrib/, alua/ and statistics/.
extern const Kind kFileDeviceAttributes;
extern const Kind kRamDeviceAttributes;
extern const Kind kAluaGroups;
extern const Kind kDeviceStatistics;
/// Sets what the kernel sets when a device is enabled.
void enable_attributes(Node& attributes);
constexpr std::string_view kDefaultAluaGroup = "default_tg_pt_gp";
/// What a LUN of the device tells of its group.
std::string_view alua_state_name(const Node& group);
constexpr std::string_view kAluaStatuses = "None|Altered by Explicit STPG|Altered by Implicit ALUA";

/// tpgt_N/lun/: LUNs, which link to devices.
extern const Kind kUnits;
extern const Kind kUnit;
extern const Kind kUnitStatistics;
extern const Kind kMappedStatistics;
/// acls/NAME/lun_N, which link to LUNs of the same portal group.
Answer<const Kind*> mapped_unit(const Node& acl, std::string_view name);

// Fabrics.
extern const Kind kIscsi;
extern const Kind kIscsiStatistics;
extern const Kind kIscsiAclStatistics;
extern const Kind kSrp;
/// param/ of a target.
extern const Kind kTargetParameters;

}  // namespace verbatim::ulp::target_tree
