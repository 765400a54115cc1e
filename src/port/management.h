#pragma once

#include "base/error.h"
#include "base/net/path.h"
#include "base/types.h"
#include "link/link.h"
#include "wire/mad/management_packet.h"

namespace verbatim::port {

/// A management datagram from queue pair 1 to queue pair 1 (IBA 13.5.1). One that the network does
/// not take counts as lost; an error where it has no way there.
Result<void> send_management(link::Stack& links, const Path& path, Psn psn, wire::MadSpan mad);

}  // namespace verbatim::port
