#pragma once

#include "base/error.h"
#include "base/net/path.h"
#include "fabric/protocol/messages.h"

namespace verbatim::fabric::protocol {

/// The address of queue pair 1 of the port to which `path` leads, with its well-known Q_Key (IBA
/// 10.2.5).
MadAddress management_address(const InfinibandPath& path);

/// Of a datagram that has come from the subnet administrator: an error if it is a question that has
/// failed. ETIMEDOUT: no administrator answers at its LID.
Result<void> answered(const MadRecord& record);

}  // namespace verbatim::fabric::protocol
