#include <gtest/gtest.h>

#include "fabric/data/virtual/virtual_net_for_test.h"

/// A ring of switches whose packets all go the same way round can wait for each other for ever: no
/// buffer has room before the next one has. `fabric/check` finds that in the tables (check_test.cpp
/// has the same ring).
namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kSize = 4;
constexpr std::uint32_t kPackets = 200;  // From each host, to the one opposite.
constexpr std::uint32_t kPacketBytes = 1000;

/// Each switch's next one is at its last cable but the host's.
Topology ring() {
  Builder builder({LinkWidth::x4, LinkSpeed::edr}, 0);
  std::vector<std::uint32_t> switches;
  for (unsigned i = 0; i < kSize; ++i) {
    switches.push_back(builder.add_numbered(NodeKind::switch_node, 'S', 4));
  }
  for (unsigned i = 0; i < kSize; ++i) builder.connect(switches[i], switches[(i + 1) % kSize]);
  for (unsigned i = 0; i < kSize; ++i) {
    builder.connect(switches[i], builder.add_numbered(NodeKind::adapter, 'H', 1));
  }
  return builder.take();
}

struct Ring : VirtualNet {
  Ring() : VirtualNet(ring(), {.block_capacity = 4 * End::blocks_of(kPacketBytes)}) {
    set_rates(image(), 1000, 0);
  }
  NodeIndex switch_of(std::uint32_t index) const { return 1 + index % kSize; }
  /// The port of switch `from` to its neighbour `to`.
  std::uint8_t port_to(std::uint32_t from, std::uint32_t to) const {
    const NodeRecord& node = image().node(switch_of(from));
    for (std::uint8_t port = 1; port <= node.ports; ++port) {
      const LinkIndex out = image().port(node, port).out;
      if (out != 0 && image().link(out).end == switch_of(to)) return port;
    }
    return 0;
  }
  template <typename NextSwitch>
  void route(NextSwitch next) {
    for (std::uint32_t at = 0; at < kSize; ++at) {
      for (std::uint32_t to = 0; to < kSize; ++to) {
        if (at == to) continue;  // The route to the own host is there.
        Tables(image()).set_route(switch_of(at), lid_of(hosts[to]), port_to(at, next(at, to)));
      }
    }
  }
  /// All hosts send at once. Returns how many packets have arrived when nothing moves any more.
  std::uint32_t packets_that_arrive() {
    std::array<std::uint32_t, kSize> sent{};
    std::uint32_t received = 0;
    const auto fill = [&](std::size_t from) {
      while (sent[from] < kPackets && send(from, (from + 2) % kSize, {}, kPacketBytes))
        ++sent[from];
      push(from);
    };
    for (std::size_t host = 0; host < kSize; ++host) fill(host);
    run([&](std::size_t, Mark) { ++received; }, fill);
    return received;
  }
};

TEST(FabricDeadlock, ARingRoutedOneWayRoundStops) {
  Ring net;
  net.route([](std::uint32_t at, std::uint32_t) { return at + 1; });
  EXPECT_LT(net.packets_that_arrive(), kSize * kPackets);
  EXPECT_TRUE(faults_of(net.image()).empty()) << "all credits are taken by packets";
  for (std::uint32_t at = 0; at < kSize; ++at) {
    const LinkRecord& link = net.image().link(
        net.image().port(net.image().node(net.switch_of(at)), net.port_to(at, at + 1)).out);
    EXPECT_NE(link.waiting, 0u);
    EXPECT_NE(link.blocked_at, 0u) << "for want of credits";
  }
}

TEST(FabricDeadlock, TheSameRingRoutedUpAndDownDeliversAll) {
  Ring net;
  // Never across the cable between the last switch and the first one.
  net.route([](std::uint32_t at, std::uint32_t to) { return to > at ? at + 1 : at - 1; });
  EXPECT_EQ(net.packets_that_arrive(), kSize * kPackets);
  EXPECT_TRUE(faults_when_empty(net.image()).empty());
}

}  // namespace
}  // namespace verbatim::fabric
