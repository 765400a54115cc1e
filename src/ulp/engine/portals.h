#pragma once

#include <span>

#include "base/net/address.h"

namespace verbatim::ulp {

/// 0.0.0.0 or ::, with a port.
bool is_any(const SocketAddress& address);

/// Returns true if a peer that has used our address `own` has come by one of the portals: all are
/// right if there are none.
bool is_at(std::span<const SocketAddress> portals, const SocketAddress& own);

}  // namespace verbatim::ulp
