#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <sys/socket.h>

#include "base/error.h"
#include "base/net/address.h"
#include "base/types.h"

namespace verbatim::ulp::rdma {

/// Where a service is. By IP: rdma_cm's TCP port space; over iWARP a TCP port.
struct IpService {
  SocketAddress address;  // Of the node, or any; `::` also takes IPv4 unless `only_own_family`.
  bool only_own_family = false;
};
/// By the InfiniBand CM, with all 92 bytes of private data: SRP (the target's GUID), IPoIB's
/// connected mode (0x1000000000000000 | QPN), SDP (0x10000 | port). A rdma_cm id of AF_IB. Linux's
/// refuses service ids that are not its port spaces', so with a card this is EPROTONOSUPPORT.
struct InfinibandService {
  std::uint64_t service = 0;
  std::uint64_t mask = ~std::uint64_t{0};
  Gid gid{};  // Connecting: the peer's. Listening: zero for each of the port's.
  PKey pkey = kDefaultPKey;
};
using ServicePlace = std::variant<IpService, InfinibandService>;

/// An address, with a port behind a colon if the address has none of its own ("10.0.0.1:4420",
/// "[fe80::1]:4420"), else `port`. EINVAL.
Result<SocketAddress> parse_place(const std::string& text, std::uint16_t port);

/// As rdma_cm takes it.
sockaddr_storage to_sockaddr(const ServicePlace& place);
/// RDMA_PS_TCP or RDMA_PS_IB.
int port_space_of(const ServicePlace& place);

}  // namespace verbatim::ulp::rdma
