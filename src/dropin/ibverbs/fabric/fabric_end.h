#pragma once

#include "adapter/adapter.h"
#include "adapter/membership.h"
#include "arena/node.h"
#include "base/error.h"
#include "dropin/ibverbs/fabric/fabric_management.h"

/// A program on a host of a fabric: its link into the switches, and what the subnet manager sets.
namespace verbatim::dropin {

/// Opens the program's end of the fabric and puts it into `membership`, whose node and first queue
/// pair number are set. Returns the program's access to queue pair 1. EOPNOTSUPP for what a fabric
/// has not; an error of the fabric's daemon.
Result<std::unique_ptr<FabricManagement>> join_fabric(adapter::Membership& membership);

/// The subnet manager has changed the port: packets follow, and programs get an event for each kind
/// of change.
void follow_fabric(const arena::InfinibandPort& before, const arena::InfinibandPort& now,
                   adapter::Adapter& adapter);

}  // namespace verbatim::dropin
