#pragma once

#include "base/net/path.h"
#include "wire/net/ip.h"

namespace verbatim::link {

/// The IP headers, or the GRH, of packets that a port sends from `local` by this path: traffic
/// class, hop limit and flow label are those of the path's GRH (IBA annexes A16, A17). Of
/// InfiniBand, the fields of its GRH, or zeros.
wire::IpFlow flow_of(const SocketAddress& local, const Path& to);

}  // namespace verbatim::link
