#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/net/address.h"
#include "link/link.h"
#include "link/udp/udp.h"

namespace verbatim::port {

/// Creates the RoCE link of a node's address, with the version that its port says. It receives from
/// `socket` (borrowed), which was made for this address; -1: it only sends. Links that receive in
/// the same pass share `buffers`. `sockets_max`: as for `UdpSender`.
Result<std::unique_ptr<link::Link>> make_roce_link(const SocketAddress& address,
                                                   std::uint32_t interface_index,
                                                   std::shared_ptr<link::UdpReceiver> buffers,
                                                   int socket, std::size_t sockets_max = 64);

}  // namespace verbatim::port
