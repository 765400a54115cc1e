#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "ulp/ipoib/datagram_sender.h"

namespace verbatim::ulp::ipoib {

/// What the kernel knows of the interface in its network namespace, by netlink.
class Kernel {
 public:
  /// `questions`, `changes`: netlink sockets of the namespace, the second in the groups of links,
  /// addresses and routes.
  Kernel(int interface_index, UniqueFd questions, UniqueFd changes);

  /// Of a packet that leaves by this interface. The kernel answers at once.
  NextHop next_hop(const SocketAddress& destination) { return next_hop(destination, true); }
  /// Nothing, too, for what leaves by another interface of the namespace.
  NextHop next_hop_by_route(const SocketAddress& destination) {
    return next_hop(destination, false);
  }
  std::vector<SocketAddress> addresses();
  /// An IPv6 address with a prefix of 64 bits. Without effect where the kernel has no IPv6.
  void add_address(const SocketAddress& ipv6);
  /// Of packets that wait to be read: what does not fit into it, the kernel drops. By netlink, for
  /// the ioctl is root's.
  void set_queue_length(std::uint32_t packets);
  /// Routes of IPv4 and IPv6 multicast groups by the interface, by whose MTU the kernel cuts what
  /// is longer. They go with the interface's being up.
  void limit_groups(std::uint32_t mtu);

  /// Readable: something has changed.
  int descriptor() const { return changes_.get(); }
  struct Changes {
    bool routes = false, addresses = false, link = false;
  };
  Changes take_changes();

 private:
  NextHop next_hop(const SocketAddress& destination, bool is_by_this);
  bool ask(ByteSpan question);
  /// Calls `visit(const nlmsghdr&)` for each message of the answer; false: it is an error.
  template <typename Visit>
  bool take_answer(Visit visit);

  const int index_;
  const UniqueFd questions_, changes_;
  std::uint32_t sequence_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace verbatim::ulp::ipoib
