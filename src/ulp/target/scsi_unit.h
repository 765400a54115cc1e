#pragma once

#include <memory>
#include <string>

#include "ulp/backstore/store.h"
#include "ulp/scsi/logical_unit.h"

namespace verbatim::ulp::target {

/// A disk as SCSI's initiators see it. Its serial number stays the same for a target's name.
std::unique_ptr<scsi::LogicalUnit> make_scsi_unit(storage::UnitId unit,
                                                  const backstore::Geometry& geometry,
                                                  const std::string& target);

}  // namespace verbatim::ulp::target
