#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/time.h"
#include "fabric/keeper/keeper.h"
#include "fabric/management/management_net.h"
#include "fabric/protocol/messages.h"

namespace verbatim::fabric {

/// The cable in the port. ENODEV: there is no such node or port, or no cable in it.
Result<std::uint32_t> find_link(const Topology& topology, std::string_view node, std::uint8_t port);

/// Does what `verbatim fabric link` asks for. ENODEV: there is no such node, or
/// no cable in its port; EINVAL: the request makes no sense for the cable.
Result<void> change_link(ManagementNet& net, Keeper& keeper, const protocol::LinkRequest& request,
                         TimeNs now);

}  // namespace verbatim::fabric
