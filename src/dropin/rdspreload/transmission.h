#pragma once

#include <cstddef>

#include <sys/socket.h>

#include "ulp/rds/local/protocol.h"

namespace verbatim::rdspreload {

/// Control messages of sendmsg(2): RDS_CMSG_RDMA_ARGS, _DEST, _MAP and atomic operations.
bool has_operations(const msghdr& message);
/// Sends the message of `length` bytes with them. Errors are Linux's.
ssize_t transmit(int fd, const msghdr& message, const ulp::rds::local::Address& to,
                 std::size_t length);

}  // namespace verbatim::rdspreload
