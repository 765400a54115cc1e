#pragma once

#include "base/error.h"
#include "base/time.h"
#include "fabric/management/management_net.h"
#include "fabric/protocol/messages.h"

namespace verbatim::fabric {

/// Does what `verbatim fabric link` asks for. ENODEV: there is no such node, or no cable in its
/// port; EINVAL: the request makes no sense for the cable.
Result<void> change_link(ManagementNet& net, const protocol::LinkRequest& request, TimeNs now);

}  // namespace verbatim::fabric
