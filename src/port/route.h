#pragma once

#include <cstdint>

#include "base/net/address.h"
#include "base/net/path.h"
#include "link/link.h"
#include "wire/net/icrc.h"
#include "wire/net/ip.h"

namespace verbatim::port {

/// The addresses of a route's packets, and the start of their ICRCs: computed once, because many
/// packets use it.
struct PacketRoute {
  PacketRoute(const SocketAddress& from, const SocketAddress& to)
      : source(from), destination(to), flow(wire::flow_of(from, to)), seed(flow) {}
  bool is_of(const SocketAddress& from, const SocketAddress& to) const {
    return source == from && destination == to;
  }

  SocketAddress source;
  SocketAddress destination;
  wire::IpFlow flow;
  wire::IcrcSeed seed;
};

/// Where packets are sent, and the header before each: resolved once, when a queue pair learns its
/// peer's address, or at the first datagram to a destination.
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
  std::uint8_t lane = 0;  // For links that have virtual lanes.
};

}  // namespace verbatim::port
