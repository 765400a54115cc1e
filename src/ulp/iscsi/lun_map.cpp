#include "ulp/iscsi/lun_map.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::ulp::iscsi {

Result<void> LunMap::add(std::uint32_t number, scsi::LogicalUnit& unit) {
  const scsi::Lun lun = scsi::Lun{number} << 48;  // Peripheral device addressing (SAM-5, 4.7.7.2).
  if (number >= kUnitsMax)
    return refuse(EINVAL, fmt::format("unit {}: numbers are below {}", number, kUnitsMax));
  if (find(lun) != nullptr) return refuse(EEXIST, fmt::format("there is a unit {}", number));
  luns_.push_back(lun);
  units_.push_back(&unit);
  return {};
}

scsi::LogicalUnit* LunMap::find(scsi::Lun lun) {
  const auto at = std::ranges::find(luns_, lun);
  return at == luns_.end() ? nullptr : units_[static_cast<std::size_t>(at - luns_.begin())];
}

}  // namespace verbatim::ulp::iscsi
