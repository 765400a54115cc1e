#pragma once

#include "ulp/target_tree/kind.h"

namespace verbatim::ulp::target_tree {

/// `nvmet/`: subsystems, namespaces, hosts, ports, as kernel 6.1 has them; `resv_enable` of
/// namespaces is 6.13's.
///
/// What a daemon answers: on_write of a namespace's `enable` (ENOENT and more of its
/// `device_path`), on_link into a port's `subsystems/`, the first of which begins to listen (EINVAL
/// of an address, EADDRNOTAVAIL, EADDRINUSE).
extern const Kind kNvmet;

}  // namespace verbatim::ulp::target_tree
