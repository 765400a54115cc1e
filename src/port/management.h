#pragma once

#include "base/error.h"
#include "base/net/path.h"
#include "base/types.h"
#include "link/link.h"
#include "wire/mad/management_packet.h"

namespace verbatim::port {

/// Sends a management datagram from queue pair 1 to queue pair 1 (IBA 13.5.1). One that the network
/// refuses counts as lost; an error if there is no route.
Result<void> send_management(link::Stack& links, const Path& path, Psn psn, wire::MadSpan mad);

}  // namespace verbatim::port
