#pragma once

#include "adapter/adapter.h"
#include "port/address_vector.h"

namespace verbatim::dropin {

/// One of several nodes on a network interface has the interface's link-local GID, the others one
/// made from their IPv4 addresses: no packet can have both as addresses. Returns the vector by the
/// IPv4 addresses of both nodes if its two GIDs are such a pair, else the vector itself.
port::AddressVector by_common_family(const adapter::Adapter& adapter,
                                     const port::AddressVector& vector);

}  // namespace verbatim::dropin
