#pragma once

#include <expected>

#include "ulp/scsi/cdb.h"
#include "ulp/scsi/data/writer.h"
#include "ulp/scsi/unit_settings.h"

/// MODE SENSE and MODE SELECT (SPC-4, 6.11 and 7.5): pages 01, 08, 0A and 1C. Nothing can be
/// changed: MODE SELECT accepts what is so already.
namespace verbatim::ulp::scsi {

std::expected<void, Sense> write_mode_data(const Cdb& cdb, const UnitSettings& settings,
                                           SenseFormat format, DataWriter& out);

/// Returns why the parameters of a MODE SELECT are refused; nothing if they change nothing.
std::optional<Sense> refused_mode_parameters(const Cdb& cdb, const UnitSettings& settings,
                                             SenseFormat format, ByteSpan parameters);

}  // namespace verbatim::ulp::scsi
