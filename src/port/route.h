#pragma once

#include <cstdint>

#include "base/net/address.h"
#include "base/net/path.h"
#include "link/link.h"
#include "wire/net/icrc.h"
#include "wire/net/ip.h"

namespace verbatim::port {

/// Where packets leave, and what stands before each: resolved once, when a queue pair learns where
/// its peer is, and when a datagram's destination is first seen.
struct Route {
  Route(link::Stack& from, link::NextHop& hop, const Path& to)
      : path(to),
        links(&from),
        next_hop(&hop),
        headers(wire::flow_of(hop.local(), address_of(to))),
        seed(headers) {}

  Path path;
  link::Stack* links;
  link::NextHop* next_hop;
  wire::IpFlow headers;
  wire::IcrcSeed seed;
  std::uint8_t lane = 0;  // Of a link that has some.
};

}  // namespace verbatim::port
