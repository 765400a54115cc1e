#pragma once

#include <optional>

#include "base/error.h"
#include "base/time.h"
#include "fabric/daemon/trunks/trunks.h"
#include "fabric/protocol/trunk_message.h"

namespace verbatim::fabric {

/// What `verbatim fabric trunk` asks for. ENODEV: there is no such node or port; EINVAL: no such
/// rate.
Result<Trunks::Options> options_of(const Topology& topology, const protocol::TrunkRequest& request);

/// The port that `verbatim fabric link` names, if it has a trunk.
std::optional<PortPlace> trunk_of(const Topology& topology, const Trunks& trunks,
                                  const protocol::LinkRequest& request);
/// Takes the trunk out or puts it in. EOPNOTSUPP: trunks do nothing else.
Result<void> change_trunk(Trunks& trunks, PortPlace port, const protocol::LinkRequest& request,
                          TimeNs now);

}  // namespace verbatim::fabric
