#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/os/unique_fd.h"

namespace verbatim::link {

/// Two ends of a TCP connection over 127.77.0.9.
struct TcpPair {
  TcpPair() {
    UniqueFd listening(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    VERBATIM_ASSERT(listening);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = inet_addr("127.77.0.9");
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(listening.get(), name, length), 0);
    EXPECT_EQ(listen(listening.get(), 1), 0);
    EXPECT_EQ(getsockname(listening.get(), name, &length), 0);
    active.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    VERBATIM_ASSERT(active);
    EXPECT_EQ(connect(active.get(), name, length), 0);
    passive.reset(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  UniqueFd active, passive;
};

}  // namespace verbatim::link
