#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/net/address.h"
#include "ulp/rdma/device.h"

namespace verbatim::ulp::tcp {

/// The addresses of a RoCE node, whose GIDs they are, with this TCP port; no link-local ones. None
/// on a fabric and over iWARP.
std::vector<SocketAddress> node_addresses(const rdma::Device& device, std::uint16_t port);

/// Where a listener at `place` is reached: if it is any, at the addresses of a RoCE node.
std::string text_of_listener(const rdma::Device& device, const SocketAddress& place);

}  // namespace verbatim::ulp::tcp
