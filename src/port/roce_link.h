#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "base/net/address.h"
#include "link/ethernet/node_function.h"
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

/// What the links of a program on a card's function share.
using NodeFunction = link::NodeFunction;
/// `qpn_range`: the program's queue pair numbers, above their lowest `qpn_shift` bits. It `answers`
/// who asks for the node's addresses, or another program does. EINVAL.
Result<std::shared_ptr<NodeFunction>> open_function(std::string_view function,
                                                    std::uint32_t qpn_range,
                                                    std::uint32_t qpn_shift, bool answers);
/// The link of an address there.
Result<std::unique_ptr<link::Link>> make_function_link(
    const SocketAddress& address, const std::shared_ptr<NodeFunction>& function);

}  // namespace verbatim::port
