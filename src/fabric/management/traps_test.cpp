// What the manager at H1 (LID 4) is told, and when.
#include <algorithm>

#include <gtest/gtest.h>

#include "fabric/management/net_test_util.h"
#include "wire/subnet/notice.h"

namespace verbatim::fabric {
namespace {

using wire::MadMethod;
using wire::Notice;
using wire::PhysicalState;
using wire::PortInfo;
using wire::PortState;
using wire::SubnetAttribute;
using wire::TrapNumber;

struct Trap {
  wire::Smp smp;
  Notice notice;
};

/// The traps that came to H1 since `from`.
std::vector<Trap> traps_of(const NetBench& bench, std::size_t from = 0) {
  std::vector<Trap> traps;
  for (std::size_t i = from; i < bench.software.arrivals.size(); ++i) {
    const auto& [port, datagram] = bench.software.arrivals[i];
    const auto smp = wire::decode_smp(datagram.mad);
    if (!smp || smp->method != MadMethod::trap) continue;
    EXPECT_EQ(port, bench.place("H1"));
    EXPECT_EQ(datagram.path.dlid, Lid{4});
    traps.push_back({*smp, wire::data_as<Notice>(*smp)});
  }
  return traps;
}

void repress(NetBench& bench, const Trap& trap) {
  wire::Smp smp = trap.smp;
  smp.method = MadMethod::trap_repress;
  bench.ask(bench.place("H1"), trap.notice.issuer, smp);
}

class Traps : public testing::Test {
 protected:
  Traps() { manage_triangle(bench); }
  const wire::SwitchInfo& switch_info(const char* name) {
    const auto info = bench.get<wire::SwitchInfo>(bench.place("H1"), triangle_routes().at(name),
                                                  SubnetAttribute::switch_info);
    return last_ = *info;
  }
  std::uint32_t link_between(PortPlace a, PortPlace b) const {
    for (std::uint32_t i = 0; i < bench.topology.links.size(); ++i) {
      const Link& link = bench.topology.links[i];
      if ((link.a == a && link.b == b) || (link.a == b && link.b == a)) return i;
    }
    ADD_FAILURE();
    return 0;
  }
  NetBench bench{topology_of(kTriangle)};

 private:
  wire::SwitchInfo last_;
};

TEST_F(Traps, BothSwitchesOfALinkTellThatItIsDown) {
  const std::uint32_t cable = link_between(bench.place("S2", 4), bench.place("S3", 4));
  EXPECT_FALSE(switch_info("S2").port_state_change);
  bench.net.set_link(cable, false, 0);
  EXPECT_EQ(bench.net.port_info(bench.place("S2", 4)).state, PortState::down);
  EXPECT_EQ(bench.net.port_info(bench.place("S3", 4)).physical_state, PhysicalState::polling);
  EXPECT_TRUE(switch_info("S2").port_state_change);

  const auto traps = traps_of(bench);
  ASSERT_EQ(traps.size(), 2u);
  for (const Trap& trap : traps) {
    EXPECT_EQ(trap.notice.trap, TrapNumber::link_state_change);
    EXPECT_EQ(trap.notice.type, wire::NoticeType::urgent);
    EXPECT_EQ(trap.notice.producer, wire::NoticeProducer::switch_node);
    EXPECT_EQ(wire::details_as<wire::SwitchDetails>(trap.notice).lid, trap.notice.issuer);
  }
  EXPECT_EQ(traps[0].notice.issuer == Lid{2}, traps[1].notice.issuer == Lid{3});
}

TEST_F(Traps, AreRepeatedUntilTheyAreRepressed) {
  bench.net.set_link(link_between(bench.place("S1", 2), bench.place("H2")), false, 0);
  ASSERT_EQ(traps_of(bench).size(), 1u);  // Hosts do not tell of their links.
  const TimeNs pace = bench.net.deadline();
  EXPECT_EQ(pace, TimeNs{4096} << 18);  // SubnetTimeOut 18.
  bench.net.on_time(pace);
  EXPECT_EQ(bench.net.deadline(), 3 * pace);  // Each pause is twice as long.
  bench.net.on_time(3 * pace);
  const auto traps = traps_of(bench);
  ASSERT_EQ(traps.size(), 3u);
  EXPECT_EQ(traps[0].smp, traps[2].smp);
  repress(bench, traps[0]);
  EXPECT_EQ(bench.net.deadline(), kNever);
}

TEST_F(Traps, EndIfTheManagerHasVanished) {
  bench.net.set_link(link_between(bench.place("S1", 2), bench.place("H2")), false, 0);
  for (TimeNs due = bench.net.deadline(); due != kNever; due = bench.net.deadline()) {
    ASSERT_LE(due, (TimeNs{4096} << 18) * 255) << "the sum of all pauses";
    bench.net.on_time(due);
  }
  EXPECT_EQ(traps_of(bench).size(), 1u + mad::TrapSender::kRepeatsMax);
}

TEST_F(Traps, LinkComesBackAfterTraining) {
  const std::uint32_t cable = link_between(bench.place("S1", 2), bench.place("H2"));
  bench.net.set_link(cable, false, 0);
  repress(bench, traps_of(bench).at(0));
  bench.software.changed.clear();
  bench.net.set_link(cable, true, kSecond);
  EXPECT_EQ(bench.net.port_info(bench.place("H2")).state, PortState::down);
  bench.net.on_time(bench.net.deadline());
  EXPECT_EQ(bench.net.port_info(bench.place("H2")).state, PortState::initialize);
  EXPECT_EQ(bench.net.port_info(bench.place("S1", 2)).state, PortState::initialize);
  EXPECT_EQ(bench.software.changed, std::vector{bench.place("H2")});
  EXPECT_EQ(traps_of(bench).size(), 2u);
  // SMPs pass again.
  EXPECT_TRUE(bench.get<wire::NodeInfo>(bench.place("H1"), Lid{5}, SubnetAttribute::node_info));
}

/// As a manager changes the MTU of an active link: the answer still comes over it.
TEST_F(Traps, SetDownRetrainsBothEnds) {
  const auto answer =
      change_port(bench, "S2", 3, [](PortInfo& info) { info.state = PortState::down; });
  EXPECT_EQ(answer.status, wire::MadStatus::ok);
  EXPECT_EQ(wire::data_as<PortInfo>(answer).state, PortState::down);
  EXPECT_EQ(bench.net.port_info(bench.place("S1", 3)).state, PortState::down);
  bench.net.on_time(bench.net.deadline());
  EXPECT_EQ(bench.net.port_info(bench.place("S1", 3)).state, PortState::initialize);
}

TEST_F(Traps, DisabledPortStaysDownUntilItIsEnabled) {
  change_port(bench, "S1", 2,
              [](PortInfo& info) { info.physical_state = PhysicalState::disabled; });
  bench.net.on_time(kSecond / 2);
  EXPECT_EQ(bench.net.port_info(bench.place("S1", 2)).physical_state, PhysicalState::disabled);
  EXPECT_EQ(bench.net.port_info(bench.place("H2")).state, PortState::down);
  bench.now = kSecond;
  change_port(bench, "S1", 2, [](PortInfo& info) { info.physical_state = PhysicalState::polling; });
  bench.net.on_time(2 * kSecond);
  EXPECT_EQ(bench.net.port_info(bench.place("H2")).state, PortState::initialize);
}

TEST_F(Traps, NewSoftwareShowsInItsCapabilities) {
  using namespace wire::port_capability;
  const PortPlace h3 = bench.place("H3");
  for (const std::uint32_t capability : {kIsSm, kDeviceManagement}) {
    for (const bool has_it : {true, false}) {
      const std::size_t before = bench.software.arrivals.size();
      bench.now += 10 * kSecond;
      EXPECT_TRUE(bench.net.set_capability(h3, capability, has_it, bench.now));
      EXPECT_FALSE(bench.net.set_capability(h3, capability, has_it, bench.now));
      const auto traps = traps_of(bench, before);
      ASSERT_EQ(traps.size(), 1u);
      repress(bench, traps[0]);
      EXPECT_EQ(traps[0].notice.trap, TrapNumber::local_changes);
      const auto details = wire::details_as<wire::LocalChangesDetails>(traps[0].notice);
      EXPECT_EQ((details.capabilities & capability) != 0, has_it);
      EXPECT_EQ(details.lid, Lid{6});
    }
  }
}

TEST_F(Traps, PortTellsOfALinkThatDamagesTooMuch) {
  const PortPlace h4 = bench.place("H4"), s3 = bench.place("S3", 1);
  const std::uint32_t cable = link_between(s3, h4);
  bench.net.set_bit_error_rate(cable, kBitErrorRateMax);
  for (unsigned i = 0; i < 100; ++i) {  // Few of these questions arrive.
    bench.get<wire::NodeInfo>(bench.place("H1"), Lid{7}, SubnetAttribute::node_info);
  }
  bench.net.set_bit_error_rate(cable, 0);
  const mad::PortCounterValues here = bench.net.counters(h4), there = bench.net.counters(s3);
  EXPECT_GT(here.local_physical_errors, 80u);
  EXPECT_NEAR(static_cast<double>(here.local_link_integrity_errors),
              static_cast<double>(here.local_physical_errors) / 9, 2);  // LocalPhyErrors is 8.
  // What comes back is damaged, too. The link recovers at both ends.
  EXPECT_EQ(here.link_error_recoveries,
            here.local_link_integrity_errors + there.local_link_integrity_errors);
  EXPECT_EQ(there.link_error_recoveries, here.link_error_recoveries);

  bench.net.on_time(bench.net.deadline());  // Its traps were damaged, too.
  const auto traps = traps_of(bench);
  const auto is_of_h4 = [](const Trap& trap) { return trap.notice.issuer == Lid{7}; };
  const auto told = std::ranges::find_if(traps, is_of_h4);
  ASSERT_NE(told, traps.end());
  EXPECT_EQ(told->notice.trap, TrapNumber::local_link_integrity);
  EXPECT_EQ(told->notice.type, wire::NoticeType::urgent);
  const auto details = wire::details_as<wire::PortErrorDetails>(told->notice);
  EXPECT_EQ(details, (wire::PortErrorDetails{.lid = Lid{7}, .port = 1}));
}

TEST_F(Traps, ThereAreNoneWithoutAManager) {
  NetBench unmanaged(topology_of(kTriangle));
  unmanaged.net.set_capability(unmanaged.place("H3"), wire::port_capability::kIsSm, true, 0);
  unmanaged.net.set_link(0, false, 0);
  EXPECT_TRUE(unmanaged.software.arrivals.empty());
  EXPECT_EQ(unmanaged.net.deadline(), kNever);
}

TEST_F(Traps, WrongMKeyIsDroppedCountedAndTold) {
  change_port(bench, "S2", 0, [](PortInfo& info) {
    info.m_key = 0x1234;
    info.m_key_protect = 2;
    info.m_key_lease_period_s = 15;
  });
  const PortPlace h4 = bench.place("H4");
  EXPECT_FALSE(bench.get<wire::NodeInfo>(h4, Lid{2}, SubnetAttribute::node_info));
  EXPECT_EQ(bench.net.port_info(bench.place("S2", 0)).m_key_violations, 1);
  const auto traps = traps_of(bench);
  ASSERT_EQ(traps.size(), 1u);
  EXPECT_EQ(traps[0].smp.m_key, 0x1234u);
  const auto details = wire::details_as<wire::BadMKeyDetails>(traps[0].notice);
  EXPECT_EQ(details.lid, Lid{7});
  EXPECT_EQ(details.attribute, raw(SubnetAttribute::node_info));

  // The lease ends without the manager: others may read again.
  Trap without_key = traps[0];
  without_key.smp.m_key = 0;
  repress(bench, without_key);
  EXPECT_EQ(bench.net.port_info(bench.place("S2", 0)).m_key_violations, 2);
  bench.net.on_time(15 * kSecond);
  EXPECT_TRUE(bench.get<wire::NodeInfo>(h4, Lid{2}, SubnetAttribute::node_info));
  const auto shown = bench.get<PortInfo>(h4, Lid{2}, SubnetAttribute::port_info);
  EXPECT_EQ(shown->m_key_protect, 0);
  EXPECT_EQ(shown->m_key, 0x1234u);
}

TEST_F(Traps, HolderOfTheMKeyStopsTheLease) {
  change_port(bench, "S2", 0, [](PortInfo& info) {
    info.m_key = 0x1234;
    info.m_key_protect = 3;
    info.m_key_lease_period_s = 15;
  });
  const PortPlace h1 = bench.place("H1");
  auto request = NetBench::request(MadMethod::get, SubnetAttribute::port_info, 0);
  EXPECT_FALSE(bench.ask(h1, Lid{2}, request));
  request.m_key = 0x1234;
  EXPECT_TRUE(bench.ask(h1, Lid{2}, request));
  bench.net.on_time(60 * kSecond);
  EXPECT_EQ(bench.net.port_info(bench.place("S2", 0)).m_key_protect, 3);
}

TEST_F(Traps, ProtectionOfLevelOneHidesTheKey) {
  change_port(bench, "S2", 0, [](PortInfo& info) {
    info.m_key = 0x1234;
    info.m_key_protect = 1;
  });
  const auto shown = bench.get<PortInfo>(bench.place("H4"), Lid{2}, SubnetAttribute::port_info);
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->m_key, 0u);
  EXPECT_EQ(bench.net.port_info(bench.place("S2", 0)).m_key_violations, 0);
}

}  // namespace
}  // namespace verbatim::fabric
