#pragma once

#include <memory>

#include "ulp/sockets/source.h"

namespace verbatim::rspreload {

/// A pending socket in an epoll set: to wait for it is to use it. It becomes an rsocket, or TCP's,
/// which replaces it in the set. Null if it is neither pending nor `fresh`, or without a
/// descriptor.
std::shared_ptr<ulp::sockets::Source> pending_source(int fd);

}  // namespace verbatim::rspreload
