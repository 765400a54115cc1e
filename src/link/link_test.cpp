#include "link/link.h"

#include <cerrno>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>

#include "link/decorators/decorator.h"
#include "link/udp/udp_link.h"
#include "wire/net/ip.h"

namespace verbatim::link {
namespace {

SocketAddress address(std::string_view text, std::uint16_t port) {
  return SocketAddress::parse(text, port).value();
}

std::uint32_t loopback_index() { return if_nametoindex("lo"); }

/// Copies of the packets that arrived.
struct Arrived final : Sink {
  struct One {
    Path from, to;
    Gid group;
    std::size_t packet_bytes;
    std::vector<std::byte> bytes;
  };
  std::vector<One> all;
  void on_packets(const Received& packets, TimeNs) override {
    all.push_back({*packets.from,
                   *packets.to,
                   packets.group,
                   packets.packet_bytes,
                   {packets.bytes.begin(), packets.bytes.end()}});
  }
};

/// A node's link with a unique port.
struct Node {
  explicit Node(std::string_view ip) {
    const SocketAddress any_port = address(ip, 0);
    socket.reset(::socket(any_port.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(socket.get(), any_port.data(), any_port.size()), 0);
    local = SocketAddress::of_socket(socket.get()).value();
    auto link = std::make_unique<UdpLink>(local, loopback_index(), std::make_shared<UdpReceiver>());
    EXPECT_TRUE(link->receive_from(socket.get()));
    links.emplace(std::move(link));
  }
  /// Receives until that many calls were made, or no more arrives.
  std::vector<Arrived::One> receive(std::size_t calls) {
    Arrived arrived;
    pollfd waiting{links->top().descriptors().back(), POLLIN, 0};
    while (arrived.all.size() < calls && poll(&waiting, 1, 1000) == 1) {
      links->top().receive(arrived, monotonic_now());
    }
    return arrived.all;
  }
  int send(const Path& path, const std::vector<std::byte>& bytes, std::uint32_t count = 1) {
    const auto hop = links->top().next_hop(path, Qpn(1 << 14), {});
    EXPECT_TRUE(hop);
    const wire::IcrcSeed seed(wire::flow_of((*hop)->local(), address_of(path)));
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    return links->top().send({.to = **hop,
                              .path = path,
                              .seed = seed,
                              .pieces = {&piece, 1},
                              .packet_bytes = bytes.size() / count,
                              .count = count,
                              .lane = 0});
  }

  UniqueFd socket;
  SocketAddress local;
  std::optional<Stack> links;
};

TEST(Link, PacketsArriveTogetherWithTheirPaths) {
  Node a("127.77.3.1"), b("127.77.3.2");
  const std::vector<std::byte> bytes(3 * 1024, std::byte{7});
  ASSERT_EQ(a.send(roce_path(b.local), bytes, 3), 0);
  const auto arrived = b.receive(1);
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_TRUE(same_source(arrived[0].from, roce_path(a.local)));
  EXPECT_EQ(arrived[0].to, roce_path(b.local));
  EXPECT_EQ(arrived[0].group, Gid{});
  EXPECT_EQ(arrived[0].packet_bytes, 1024u);
  EXPECT_EQ(arrived[0].bytes, bytes);
}

TEST(Link, AMemberHearsItsGroupUntilItLeaves) {
  Node a("127.77.3.3"), b("127.77.3.4");
  const Gid group = gid_of(address("239.77.3.9", 0));
  ASSERT_TRUE(b.links->top().join({group}));
  EXPECT_EQ(b.links->top().descriptors().size(), 2u);
  const Path path = roce_path(resolve_gid(group, loopback_index()).value());
  ASSERT_EQ(a.send(path, std::vector<std::byte>(256)), 0);
  const auto arrived = b.receive(1);
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].group, group);
  b.links->top().leave({group});
  EXPECT_EQ(b.links->top().descriptors().size(), 1u);
}

TEST(Link, APathOfAnotherKindIsRefused) {
  Node a("127.77.3.5");
  for (const Path& path : {Path(InfinibandPath{.dlid = Lid{3}}),
                           Path(RoceV1Path{.destination = address("127.77.3.6", 0)})}) {
    const auto hop = a.links->top().next_hop(path, Qpn(1), {});
    ASSERT_FALSE(hop);
    EXPECT_EQ(hop.error().code, EINVAL);
  }
}

TEST(Link, ADecoratorTakesWhatItOverridesAndHandsOnTheRest) {
  struct Doubled final : Decorator {
    using Decorator::Decorator;
    int send(const Packets& packets) noexcept override {
      next().send(packets);
      return next().send(packets);
    }
  };
  Node a("127.77.3.7"), b("127.77.3.8");
  Doubled doubled(a.links->base());
  a.links->set_top(doubled);
  ASSERT_EQ(a.send(roce_path(b.local), std::vector<std::byte>(64, std::byte{1})), 0);
  std::size_t bytes = 0;
  for (const auto& one : b.receive(2)) bytes += one.bytes.size();
  EXPECT_EQ(bytes, 128u);
  a.links->set_top(a.links->base());
  ASSERT_EQ(a.send(roce_path(b.local), std::vector<std::byte>(32)), 0);
  ASSERT_EQ(b.receive(1).size(), 1u);
}

}  // namespace
}  // namespace verbatim::link
