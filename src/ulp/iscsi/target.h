#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "ulp/iscsi/chap.h"
#include "ulp/scsi/task_set.h"

namespace verbatim::ulp::iscsi {

/// One target: its name, its units, and who may log in. Nobody may until one is admitted.
class Target final : public scsi::Units {
 public:
  static constexpr std::size_t kUnitsMax = 256;

  /// EINVAL: no iSCSI name.
  static Result<Target> create(const std::string& name);

  /// Of those who have no entry of their own.
  void set_authentication(Authentication wanted) { authentication_ = std::move(wanted); }
  void admit_any() { admits_any_ = true; }
  /// EINVAL: no iSCSI name. Without `own`, the target's authentication holds.
  Result<void> admit(const std::string& initiator, std::optional<Authentication> own = {});
  /// `number` is below 256. The unit outlives the target. EEXIST, EINVAL.
  Result<void> add(std::uint32_t number, scsi::LogicalUnit& unit);

  const std::string& name() const { return port_.device_name; }
  std::uint16_t tag() const { return port_.tag; }
  const scsi::Port& port() const { return port_; }
  bool admits_any() const { return admits_any_; }
  bool admits(const std::string& initiator) const;
  const Authentication& authentication_of(const std::string& initiator) const;
  std::span<scsi::LogicalUnit* const> units() const { return units_; }

  scsi::LogicalUnit* find(scsi::Lun lun) override;
  std::span<const scsi::Lun> luns() const override { return luns_; }

 private:
  scsi::Port port_{.protocol = scsi::Protocol::iscsi};
  Authentication authentication_;
  std::map<std::string, std::optional<Authentication>> initiators_;
  bool admits_any_ = false;
  std::vector<scsi::Lun> luns_;
  std::vector<scsi::LogicalUnit*> units_;  // Of the same index.
};

}  // namespace verbatim::ulp::iscsi
