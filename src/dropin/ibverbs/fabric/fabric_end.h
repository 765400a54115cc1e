#pragma once

#include "adapter/adapter.h"
#include "adapter/membership.h"
#include "arena/node.h"
#include "base/error.h"

/// A program on a host of a fabric: its link into the switches, and what the subnet manager sets.
namespace verbatim::dropin {

/// Opens the program's ends of the fabric, one at each port, and puts them into `membership`, whose
/// node and first queue pair number are set. EOPNOTSUPP for what a fabric has not; an error of the
/// fabric's daemon.
Result<void> join_fabric(adapter::Membership& membership);

/// Subnet managers have changed the ports: packets follow, and programs get an event for each kind
/// of change.
void follow_fabric(const arena::NetworkState& before, const arena::NetworkState& now,
                   adapter::Adapter& adapter);

}  // namespace verbatim::dropin
