#pragma once

#include "ulp/scsi/data/writer.h"
#include "ulp/scsi/plan.h"

/// EXTENDED COPY (LID1) with one segment, from blocks to blocks, between units that the initiator
/// sees (SPC-4, 6.4 and 6.18).
namespace verbatim::ulp::scsi {

class LogicalUnit;

/// `unit`: the one that the command was sent to.
Step plan_copy(LogicalUnit& unit, const Command& command, ByteSpan parameters);
/// RECEIVE COPY RESULTS, OPERATING PARAMETERS: the limits.
void write_copy_limits(DataWriter& out);

}  // namespace verbatim::ulp::scsi
