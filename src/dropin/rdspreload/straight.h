#pragma once

#include <cstddef>

#include <sys/uio.h>

#include "dropin/rdspreload/sockets.h"

/// Messages past the brokers: into the inbox of a socket on this machine, in the sender's thread.
namespace verbatim::rdspreload {

/// Returns false if the message has to go by the broker: the receiver is elsewhere, or full, or
/// earlier messages of this socket have not come to their end.
bool send_straight(Socket& socket, const ulp::rds::local::Address& to, const iovec* pieces,
                   std::size_t count, std::size_t bytes);
/// The program closes descriptors, maybe one of ours.
void forget_neighbour(int fd);

}  // namespace verbatim::rdspreload
