#pragma once

#include "base/net/address.h"
#include "link/udp/udp.h"
#include "wire/net/icrc.h"
#include "wire/net/ip.h"

namespace verbatim::adapter {

/// The way of packets from one address to another, with what all their ICRCs begin with: computed
/// once, for packet after packet goes the same way.
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

/// Where packets leave, and their way: resolved once, when a queue pair learns where its peer is,
/// and when a datagram's destination is first seen.
struct Route {
  Route(const link::SendSocket& from, const SocketAddress& to)
      : socket(&from), way(from.local(), to) {}

  const link::SendSocket* socket;
  PacketRoute way;
};

}  // namespace verbatim::adapter
