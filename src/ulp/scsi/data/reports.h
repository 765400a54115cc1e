#pragma once

#include <expected>
#include <span>

#include "ulp/scsi/cdb.h"
#include "ulp/scsi/data/writer.h"
#include "ulp/scsi/unit_settings.h"

/// Parameter data of the commands that report: capacity (SBC-3, 5.14 and 5.15), units
/// (SPC-4, 6.33), operation codes (6.35).
namespace verbatim::ulp::scsi {

std::expected<void, Sense> write_capacity_10(const Cdb& cdb, const UnitSettings& settings,
                                             DataWriter& out);
std::expected<void, Sense> write_capacity_16(const Cdb& cdb, const UnitSettings& settings,
                                             DataWriter& out);
std::expected<void, Sense> write_luns(const Cdb& cdb, std::span<const Lun> luns, DataWriter& out);
std::expected<void, Sense> write_operation_codes(const Cdb& cdb, const UnitSettings& settings,
                                                 DataWriter& out);

/// Whether the unit's settings allow a command that the table has.
bool is_enabled(Operation operation, const UnitSettings& settings);

}  // namespace verbatim::ulp::scsi
