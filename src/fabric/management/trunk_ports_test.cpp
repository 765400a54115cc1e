#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/management/net_test_util.h"

namespace verbatim::fabric {
namespace {

using wire::SubnetAttribute;

constexpr Rate kRate{LinkWidth::x4, LinkSpeed::hdr};

/// Two triangles; port 36 of both S2 are one trunk.
class TrunkedNets : public testing::Test {
 protected:
  /// Carries at once.
  struct Carrier final : TrunkCarrier {
    void on_departure(PortPlace, const ManagementDatagram& datagram) override {
      waiting.push_back(datagram);
    }
    void on_trunk_changed(PortPlace) override { ++changes; }
    std::vector<ManagementDatagram> waiting;
    unsigned changes = 0;
  };

  void SetUp() override {
    for (NetBench* bench : {&a, &b}) {
      bench->net.set_trunk_carrier(bench == &a ? to_b : to_a);
      bench->net.add_trunk(port(*bench), kRate, bench->now);
    }
  }
  static PortPlace port(const NetBench& bench) { return bench.place("S2", 36); }
  void set_link(std::optional<Rate> rate) {
    a.net.set_trunk_link(port(a), rate, a.now);
    b.net.set_trunk_link(port(b), rate, b.now);
  }
  void carry() {
    while (!to_a.waiting.empty() || !to_b.waiting.empty()) {
      for (const auto& datagram : std::exchange(to_b.waiting, {})) {
        b.net.receive(port(b), datagram, b.now);
      }
      for (const auto& datagram : std::exchange(to_a.waiting, {})) {
        a.net.receive(port(a), datagram, a.now);
      }
    }
  }
  /// The answer of a node of B's to a host of A's.
  std::optional<wire::NodeInfo> node_info(const Hops& route) {
    const std::size_t before = a.software.arrivals.size();
    (void)a.ask(a.place("H1"), route,
                NetBench::request(wire::MadMethod::get, SubnetAttribute::node_info, 0));
    carry();
    if (a.software.arrivals.size() == before) return std::nullopt;
    return wire::data_as<wire::NodeInfo>(
        *wire::decode_smp(a.software.arrivals.back().datagram.mad));
  }

  NetBench a{topology_of(kTriangle)};
  NetBench b{topology_of(kTriangle)};
  Carrier to_a;
  Carrier to_b;
};

/// The hops count on: H1, S1, S2 here, then S2 and its neighbours there.
TEST_F(TrunkedNets, DirectedRoutesGoThroughAndBack) {
  set_link(kRate);
  const auto s2 = node_info({1, 3, 36});
  ASSERT_TRUE(s2);
  EXPECT_EQ(s2->node_guid, b.topology.nodes[b.place("S2").node].guid);
  EXPECT_EQ(s2->local_port, 36);
  const auto h3 = node_info({1, 3, 36, 1});
  ASSERT_TRUE(h3);
  EXPECT_EQ(h3->node_type, wire::NodeType::channel_adapter);
}

TEST_F(TrunkedNets, NothingPassesWhileItsLinkIsDown) {
  EXPECT_FALSE(node_info({1, 3, 36}));
  set_link(kRate);
  EXPECT_TRUE(node_info({1, 3, 36}));
  set_link(std::nullopt);
  EXPECT_FALSE(node_info({1, 3, 36}));
}

TEST_F(TrunkedNets, ThePortHasTheStatesOfACable) {
  const auto info = [this] { return a.net.port_info(port(a)); };
  EXPECT_EQ(info().physical_state, wire::PhysicalState::polling);
  set_link(Rate{LinkWidth::x1, LinkSpeed::edr});
  EXPECT_EQ(info().state, wire::PortState::initialize);
  EXPECT_EQ(info().width_active, LinkWidth::x1);
  EXPECT_NE(info().width_supported & raw(LinkWidth::x4), 0);
  EXPECT_GT(to_b.changes, 0u);
  set_link(std::nullopt);
  EXPECT_EQ(info().state, wire::PortState::down);
}

/// Only SMPs pass before the port is active.
TEST_F(TrunkedNets, GeneralDatagramsWaitForAnActivePort) {
  manage_triangle(a);
  set_link(kRate);
  ManagementDatagram datagram{.path = {.dlid = Lid{3}, .slid = Lid{2}},
                              .source_qp = Qpn(1),
                              .destination_qp = Qpn(1),
                              .qkey = 0x8001'0000};
  datagram.mad[0] = std::byte{1};  // Base version.
  b.net.receive(port(b), datagram, b.now);
  EXPECT_TRUE(to_a.waiting.empty());
  const std::uint64_t before = to_b.waiting.size();
  a.net.receive(port(a), datagram, a.now);
  EXPECT_EQ(to_b.waiting.size(), before);
}

/// A manager disables the port: its owner is told to look no longer for a peer.
TEST_F(TrunkedNets, AManagerTakesItDown) {
  manage_triangle(a);
  set_link(kRate);
  const unsigned before = to_b.changes;
  change_port(a, "S2", 36, [](wire::PortInfo& info) {
    info.state = wire::PortState::down;
    info.physical_state = wire::PhysicalState::disabled;
  });
  EXPECT_FALSE(a.net.is_trunk_up(port(a)));
  EXPECT_EQ(a.net.port_info(port(a)).physical_state, wire::PhysicalState::disabled);
  EXPECT_GT(to_b.changes, before);
}

}  // namespace
}  // namespace verbatim::fabric
