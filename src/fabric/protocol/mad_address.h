#pragma once

#include "base/net/path.h"
#include "fabric/protocol/messages.h"

namespace verbatim::fabric::protocol {

/// The address of queue pair 1 of the port to which `path` leads, with its well-known Q_Key (IBA
/// 10.2.5).
MadAddress management_address(const InfinibandPath& path);

}  // namespace verbatim::fabric::protocol
