#include "mad/sma/port_rules.h"

#include <gtest/gtest.h>

#include "base/net/path.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::mad {
namespace {

using wire::MadStatus;
using wire::PhysicalState;
using wire::PortInfo;
using wire::PortState;

PortInfo port_in(PortState state) {
  PortInfo port{.lid = Lid{1},
                .sm_lid = Lid{1},
                .width_enabled = 3,
                .width_supported = 3,
                .state = state,
                .physical_state = PhysicalState::link_up,
                .link_down_default_state = PhysicalState::polling,
                .neighbor_mtu = Mtu::k4096,
                .vl_cap = wire::VirtualLanes::eight,
                .mtu_cap = Mtu::k4096,
                .operational_vls = wire::VirtualLanes::eight};
  wire::set_supported_speeds(port, LinkSpeed::ndr);
  return port;
}

PortInfo unchanged(const PortInfo& port) {
  PortInfo wanted = port;
  wanted.state = PortState::no_change;
  wanted.physical_state = PhysicalState::no_change;
  return wanted;
}

template <typename Change>
auto set(const PortInfo& port, PortRole role, const Change& change) {
  PortInfo wanted = unchanged(port);
  change(wanted);
  return apply(port, wanted, role);
}

TEST(PortRules, StatesGoOneStepUpOrDown) {
  const PortState all[] = {PortState::down, PortState::initialize, PortState::armed,
                           PortState::active};
  for (const PortState from : all) {
    for (const PortState to : all) {
      const bool may = to == PortState::down ||
                       (from == PortState::initialize && to == PortState::armed) ||
                       (from == PortState::armed && to == PortState::active);
      const auto change =
          set(port_in(from), PortRole::adapter, [to](PortInfo& port) { port.state = to; });
      ASSERT_EQ(change.has_value(), may) << int{raw(from)} << " to " << int{raw(to)};
      if (!may) continue;
      EXPECT_EQ(change->info.state, to);
      EXPECT_EQ(change->drops_link, to == PortState::down);
    }
  }
}

TEST(PortRules, PhysicalStateTakesThePortDown) {
  for (const auto physical :
       {PhysicalState::sleep, PhysicalState::polling, PhysicalState::disabled}) {
    const auto change = set(port_in(PortState::active), PortRole::switch_external,
                            [physical](PortInfo& port) { port.physical_state = physical; });
    ASSERT_TRUE(change);
    EXPECT_TRUE(change->drops_link);
    EXPECT_EQ(change->info.state, PortState::down);
    EXPECT_EQ(change->info.physical_state, physical);
  }
  EXPECT_FALSE(set(port_in(PortState::active), PortRole::switch_external,
                   [](PortInfo& port) { port.physical_state = PhysicalState::training; }));
}

TEST(PortRules, ImpossibleValuesChangeNothing) {
  const PortInfo port = port_in(PortState::initialize);
  const auto refused = [&port](auto change) {
    const auto result = set(port, PortRole::adapter, change);
    return !result && result.error() == MadStatus::invalid_value;
  };
  EXPECT_TRUE(refused([](PortInfo& wanted) { wanted.lid = Lid{0}; }));
  EXPECT_TRUE(refused([](PortInfo& wanted) { wanted.lid = Lid{0xc000}; }));
  EXPECT_TRUE(refused([](PortInfo& wanted) { wanted.sm_lid = Lid{0}; }));
  EXPECT_TRUE(refused([](PortInfo& wanted) { wanted.neighbor_mtu = Mtu{0}; }));
  EXPECT_TRUE(refused([](PortInfo& wanted) { wanted.neighbor_mtu = Mtu{6}; }));
  EXPECT_TRUE(
      refused([](PortInfo& wanted) { wanted.operational_vls = wire::VirtualLanes::fifteen; }));
  EXPECT_TRUE(refused([](PortInfo& wanted) { wanted.width_enabled = 8; }));
  EXPECT_TRUE(refused([](PortInfo& wanted) { wanted.speed_extended_enabled = 16; }));
}

TEST(PortRules, EnabledMasks) {
  const PortInfo port = port_in(PortState::active);
  const auto change = set(port, PortRole::adapter, [](PortInfo& wanted) {
    wanted.width_enabled = 255;
    wanted.speed_enabled = 0;
    wanted.speed_extended_enabled = 30;
  });
  ASSERT_TRUE(change);
  EXPECT_EQ(change->info.width_enabled, port.width_supported);
  EXPECT_EQ(change->info.speed_enabled, port.speed_enabled);
  EXPECT_EQ(change->info.speed_extended_enabled, 30);
}

/// As `ibportstate` writes 0x1234 where it read 0.
TEST(PortRules, ExternalPortsHaveNoLid) {
  const auto change =
      set(port_in(PortState::initialize), PortRole::switch_external, [](PortInfo& wanted) {
        wanted.lid = Lid{0x1234};
        wanted.sm_lid = Lid{0x1234};
        wanted.head_of_queue_life = 16;
      });
  ASSERT_TRUE(change);
  EXPECT_EQ(change->info.lid, Lid{1});
  EXPECT_EQ(change->info.sm_lid, Lid{1});
  EXPECT_EQ(change->info.head_of_queue_life, 16);
}

TEST(PortRules, ViolationsCanOnlyBeCleared) {
  PortInfo port = port_in(PortState::active);
  port.p_key_violations = 5;
  port.q_key_violations = 6;
  const auto change = set(port, PortRole::adapter, [](PortInfo& wanted) {
    wanted.p_key_violations = 0;
    wanted.q_key_violations = 9;
  });
  EXPECT_EQ(change->info.p_key_violations, 0);
  EXPECT_EQ(change->info.q_key_violations, 6);
}

}  // namespace
}  // namespace verbatim::mad
