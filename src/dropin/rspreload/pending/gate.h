#pragma once

#include <cstdint>

#include <sys/socket.h>

#include "ulp/sdp/rules.h"

/// Where the peers of accepted sockets connect: a listener for each local address, which all of
/// this process's sockets share, and one thread that accepts there. So an accepted socket costs the
/// node's agent nothing. A peer tells the port of the TCP socket that it replaces, and is given to
/// the socket that expects this port.
namespace verbatim::rspreload {

/// A socket's two ends, with addresses as the program sees them.
struct Names {
  sockaddr_storage local{};
  sockaddr_storage peer{};
};

struct Expected {
  int arrival = -1;        // A descriptor that becomes readable when the peer has come; -1: errno.
  std::uint16_t port = 0;  // Where it must connect, in network order.
};
/// `bindable`: the local address as adapters need it.
Expected expect(ulp::sdp::Carrier carrier, const Names& names, const sockaddr_storage& bindable);
/// The rsocket that has come, or -1.
int take_arrival(int arrival);
/// The names of the socket that expects, for an rsocket that has come by another way.
void name_as_expected(int arrival, int rsocket);
/// Ends it, also the connection if it has come. Returns false if nothing is expected there.
bool forget_arrival(int arrival);

}  // namespace verbatim::rspreload
