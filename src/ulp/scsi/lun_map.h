#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "ulp/scsi/task_set.h"

namespace verbatim::ulp::scsi {

/// The units that an initiator sees, by their numbers. They outlive it.
class LunMap final : public Units {
 public:
  static constexpr std::size_t kUnitsMax = 256;

  /// `number` is below 256. EEXIST, EINVAL.
  Result<void> add(std::uint32_t number, LogicalUnit& unit) {
    const Lun lun = Lun{number} << 48;  // Peripheral device addressing (SAM-5, 4.7.7.2).
    if (number >= kUnitsMax)
      return refuse(EINVAL, fmt::format("unit {}: numbers are below {}", number, kUnitsMax));
    if (find(lun) != nullptr) return refuse(EEXIST, fmt::format("there is a unit {}", number));
    luns_.push_back(lun);
    units_.push_back(&unit);
    return {};
  }
  std::span<LogicalUnit* const> units() const { return units_; }

  LogicalUnit* find(Lun lun) override {
    const auto at = std::ranges::find(luns_, lun);
    return at == luns_.end() ? nullptr : units_[static_cast<std::size_t>(at - luns_.begin())];
  }
  std::span<const Lun> luns() const override { return luns_; }
  friend bool operator==(const LunMap& a, const LunMap& b) {
    return a.luns_ == b.luns_ && a.units_ == b.units_;
  }

 private:
  std::vector<Lun> luns_;
  std::vector<LogicalUnit*> units_;  // Of the same index.
};

}  // namespace verbatim::ulp::scsi
