#include "ulp/iscsi/target.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::ulp::iscsi {
namespace {

Result<void> check_name(const std::string& name) {
  if (is_iscsi_name(name)) return {};
  return refuse(EINVAL,
                fmt::format("'{}' is no iSCSI name: write iqn.2026-01.com.example:disk", name));
}

/// Peripheral device addressing (SAM-5, 4.7.7.2).
scsi::Lun lun_of(std::uint32_t number) { return scsi::Lun{number} << 48; }

}  // namespace

Result<Target> Target::create(const std::string& name) {
  if (auto checked = check_name(name); !checked) return std::unexpected(checked.error());
  Target target;
  target.port_.device_name = name;
  return target;
}

Result<void> Target::admit(const std::string& initiator, std::optional<Authentication> own) {
  if (auto checked = check_name(initiator); !checked) return checked;
  initiators_[initiator] = std::move(own);
  return {};
}

Result<void> Target::add(std::uint32_t number, scsi::LogicalUnit& unit) {
  if (number >= kUnitsMax)
    return refuse(EINVAL, fmt::format("unit {}: numbers are below {}", number, kUnitsMax));
  if (find(lun_of(number)) != nullptr)
    return refuse(EEXIST, fmt::format("{} has a unit {} already", name(), number));
  luns_.push_back(lun_of(number));
  units_.push_back(&unit);
  return {};
}

bool Target::admits(const std::string& initiator) const {
  return admits_any_ || initiators_.contains(initiator);
}

const Authentication& Target::authentication_of(const std::string& initiator) const {
  const auto own = initiators_.find(initiator);
  return own != initiators_.end() && own->second ? *own->second : authentication_;
}

scsi::LogicalUnit* Target::find(scsi::Lun lun) {
  const auto at = std::ranges::find(luns_, lun);
  return at == luns_.end() ? nullptr : units_[static_cast<std::size_t>(at - luns_.begin())];
}

}  // namespace verbatim::ulp::iscsi
