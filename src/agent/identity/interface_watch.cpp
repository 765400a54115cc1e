#include "agent/identity/interface_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

namespace verbatim::agent {

Result<InterfaceWatch> InterfaceWatch::open() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  if (!fd) return refuse_errno("no netlink socket");
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return refuse_errno("cannot watch interfaces");
  }
  return InterfaceWatch(std::move(fd));
}

void InterfaceWatch::drain() const {
  constexpr int kMessagesMax = 64;
  // An error (ENOBUFS) reports dropped messages, and is read as they are.
  for (int i = 0; i < kMessagesMax; ++i) {
    if (recv(fd_.get(), nullptr, 0, MSG_TRUNC) < 0 && errno == EAGAIN) return;
  }
}

}  // namespace verbatim::agent
