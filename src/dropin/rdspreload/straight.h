#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/uio.h>

#include "dropin/rdspreload/sockets.h"

/// Messages past the brokers: into the inbox of a socket on this machine, in the sender's thread.
namespace verbatim::rdspreload {

enum class Straight : std::uint8_t {
  sent,
  by_broker,  // The receiver is elsewhere, or the broker has messages for it.
  waits,      // The receiver is full, or earlier messages have not come to their end.
};
Straight send_straight(Socket& socket, const ulp::rds::local::Address& to, const iovec* pieces,
                       std::size_t count, std::size_t bytes);
/// The program closes descriptors, maybe one of ours.
void forget_neighbour(int fd);

}  // namespace verbatim::rdspreload
