#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "ulp/scsi/task_set.h"

namespace verbatim::ulp::iscsi {

/// The units that an initiator sees, by their numbers. They outlive it.
class LunMap final : public scsi::Units {
 public:
  static constexpr std::size_t kUnitsMax = 256;

  /// `number` is below 256. EEXIST, EINVAL.
  Result<void> add(std::uint32_t number, scsi::LogicalUnit& unit);
  std::span<scsi::LogicalUnit* const> units() const { return units_; }

  scsi::LogicalUnit* find(scsi::Lun lun) override;
  std::span<const scsi::Lun> luns() const override { return luns_; }
  friend bool operator==(const LunMap& a, const LunMap& b) {
    return a.luns_ == b.luns_ && a.units_ == b.units_;
  }

 private:
  std::vector<scsi::Lun> luns_;
  std::vector<scsi::LogicalUnit*> units_;  // Of the same index.
};

}  // namespace verbatim::ulp::iscsi
