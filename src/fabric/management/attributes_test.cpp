// What nodes say of themselves, by kind of node, vendor and speed.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/management/net_test_util.h"
#include "wire/subnet/link_speed.h"
#include "wire/subnet/notice.h"

namespace verbatim::fabric {
namespace {

using wire::MadMethod;
using wire::MadStatus;
using wire::SubnetAttribute;

/// A switch whose first port has a host, and the second another.
Topology pair_of(const std::string& rate, const char* vendor = "", const char* port_0 = "") {
  const std::string text = std::string(vendor) + "Switch 36 \"S-1\" # \"S1\" " + port_0 +
                           " lid 0 lmc 0\n[1] \"H-1\"[1] # " + rate + "\n[2] \"H-2\"[1] # " + rate +
                           "\n\n" + vendor + "Ca 1 \"H-1\" # \"H1\"\n[1] \"S-1\"[1] # " + rate +
                           "\n\n" + vendor + "Ca 1 \"H-2\" # \"H2\"\n[1] \"S-1\"[2] # " + rate +
                           "\n";
  return topology_of(text.c_str());
}
constexpr const char* kMellanox = "vendid=0x2c9\ndevid=0xd2f0\n";
constexpr std::uint32_t kKnowsExtendedSpeeds = 0x8000'0000;
const Hops kToSwitch{1};
const Hops kToOther{1, 2};

/// IBA 14.2.5.8: an enhanced port 0 maps service levels as a host does; a base one does not.
TEST(Attributes, SlToVlOfASwitchesPort0) {
  for (const bool is_enhanced : {false, true}) {
    NetBench bench(pair_of("4xHDR", "", is_enhanced ? "enhanced port 0" : "base port 0"));
    const PortPlace h1 = bench.place("H1");
    for (const std::uint32_t input : {0u, 1u, 36u}) {
      const std::uint32_t to_port_0 = input << 8;
      const auto table = bench.get<wire::SlToVlMappingTable>(
          h1, kToSwitch, SubnetAttribute::sl_to_vl_mapping_table, to_port_0);
      EXPECT_EQ(table.has_value(), is_enhanced) << input;
      if (!table) continue;
      EXPECT_EQ(*table, wire::SlToVlMappingTable{}) << "it has one lane";
      wire::SlToVlMappingTable wanted;
      wanted.lanes[3] = 15;
      const auto set =
          bench.set(h1, kToSwitch, SubnetAttribute::sl_to_vl_mapping_table, to_port_0, wanted);
      EXPECT_EQ(set->status, MadStatus::ok);
      EXPECT_EQ(bench.get<wire::SlToVlMappingTable>(
                    h1, kToSwitch, SubnetAttribute::sl_to_vl_mapping_table, to_port_0),
                wanted);
    }
    EXPECT_TRUE(bench.get<wire::SlToVlMappingTable>(h1, kToSwitch,
                                                    SubnetAttribute::sl_to_vl_mapping_table, 36));
    EXPECT_FALSE(bench.get<wire::SlToVlMappingTable>(h1, kToSwitch,
                                                     SubnetAttribute::sl_to_vl_mapping_table, 37));
  }
}

TEST(Attributes, SwitchesOfNdrHideExtendedSpeedsFromWhoDoesNotKnowThem) {
  struct Row {
    const char* rate;
    bool hides;
  };
  for (const auto& [rate, hides] : {Row{"4xQDR", false}, Row{"4xEDR", false}, Row{"4xHDR", false},
                                    Row{"4xNDR", true}, Row{"4xXDR", true}}) {
    NetBench bench(pair_of(rate));
    const PortPlace h1 = bench.place("H1");
    const auto port = [&](const Hops& to, std::uint32_t modifier) {
      return *bench.get<wire::PortInfo>(h1, to, SubnetAttribute::port_info, modifier);
    };
    const auto whole = bench.net.port_info({bench.place("S1").node, 2});
    const auto shown = port(kToSwitch, 2);
    EXPECT_EQ(wire::active_speed(port(kToSwitch, 2 | kKnowsExtendedSpeeds)),
              wire::active_speed(whole));
    EXPECT_EQ(wire::active_speed(port(kToOther, 1)), wire::active_speed(whole)) << "an adapter";
    if (hides) {
      EXPECT_EQ(wire::active_speed(shown), LinkSpeed::qdr) << rate;
      EXPECT_EQ(shown.speed_extended_supported | shown.speed_extended_enabled |
                    shown.speed_extended2_supported | shown.speed_extended2_enabled,
                0);
    } else {
      EXPECT_EQ(wire::active_speed(shown), wire::active_speed(whole)) << rate;
    }
  }
}

TEST(Attributes, MellanoxPortsTellOfFdr10AndOthersRefuse) {
  struct Row {
    const char* rate;
    std::uint8_t supported;
    std::uint8_t active;
  };
  for (const auto& [rate, supported, active] :
       {Row{"4xQDR", 0, 0}, Row{"4xFDR10", 1, 1}, Row{"4xFDR", 1, 0}, Row{"4xHDR", 1, 0}}) {
    NetBench bench(pair_of(rate, kMellanox));
    for (const auto& [to, modifier] : {std::pair{kToSwitch, 2u}, {kToOther, 1u}, {kToOther, 0u}}) {
      const auto info = bench.get<wire::MellanoxExtendedPortInfo>(
          bench.place("H1"), to, SubnetAttribute::mellanox_extended_port_info, modifier);
      ASSERT_TRUE(info) << rate;
      EXPECT_EQ(info->speed_supported, supported) << rate;
      EXPECT_EQ(info->speed_enabled, supported) << rate;
      EXPECT_EQ(info->speed_active, active) << rate;
    }
    wire::MellanoxExtendedPortInfo other{.speed_enabled = static_cast<std::uint8_t>(supported ^ 1)};
    const auto set = [&] {
      return bench
          .set(bench.place("H1"), kToSwitch, SubnetAttribute::mellanox_extended_port_info, 2, other)
          ->status;
    };
    EXPECT_EQ(set(), MadStatus::invalid_value) << "it would change nothing";
    other.speed_enabled = supported;
    EXPECT_EQ(set(), MadStatus::ok);
  }
  NetBench bench(pair_of("4xFDR10"));
  const auto answer =
      bench.ask(bench.place("H1"), kToSwitch,
                NetBench::request(MadMethod::get, SubnetAttribute::mellanox_extended_port_info, 2));
  EXPECT_EQ(answer->status, MadStatus::unsupported_attribute);
}

TEST(Attributes, ActiveRateIsThatOfTheLink) {
  NetBench bench(topology_of(kTriangle));
  EXPECT_EQ(bench.net.active_rate(0), bench.net.cable_rate(0));
  bench.net.set_cable_rate(0, {LinkWidth::x1, LinkSpeed::sdr}, 0);
  bench.net.on_time(bench.net.deadline());
  EXPECT_EQ(bench.net.active_rate(0), (Rate{LinkWidth::x1, LinkSpeed::sdr}));

  NetBench other(pair_of("4xHDR"));
  other.net.on_time(0);
  auto info = *other.get<wire::PortInfo>(other.place("H1"), kToSwitch, SubnetAttribute::port_info,
                                         2 | kKnowsExtendedSpeeds);
  info.state = wire::PortState::down;
  info.physical_state = wire::PhysicalState::polling;
  info.width_enabled = raw(LinkWidth::x1);
  info.speed_extended_enabled = 30;  // None.
  ASSERT_EQ(other
                .set(other.place("H1"), kToSwitch, SubnetAttribute::port_info,
                     2 | kKnowsExtendedSpeeds, info)
                ->status,
            MadStatus::ok);
  other.net.on_time(other.net.deadline());
  EXPECT_EQ(other.net.active_rate(1), (Rate{LinkWidth::x1, LinkSpeed::qdr}));
  EXPECT_EQ(other.net.cable_rate(1), (Rate{LinkWidth::x4, LinkSpeed::hdr}));
}

TEST(Attributes, ANewDescriptionIsToldToTheManager) {
  NetBench bench(topology_of(kTriangle));
  manage_triangle(bench);
  bench.software.arrivals.clear();
  bench.software.changed.clear();
  const PortPlace h2 = bench.place("H2");
  bench.net.set_node_description(h2.node, "renamed", 0);
  EXPECT_EQ(bench.get<wire::NodeDescription>(bench.place("H1"), Lid{5},
                                             SubnetAttribute::node_description),
            wire::node_description("renamed"));
  ASSERT_FALSE(bench.software.arrivals.empty());
  const auto& trap = bench.software.arrivals.front();
  EXPECT_EQ(trap.port, bench.place("H1"));
  const auto notice = wire::data_as<wire::Notice>(*wire::decode_smp(trap.datagram.mad));
  const auto details = wire::details_as<wire::LocalChangesDetails>(notice);
  EXPECT_EQ(details.lid, Lid{5});
  EXPECT_TRUE(details.is_other);
  EXPECT_EQ(details.changes, wire::LocalChangesDetails::kNodeDescription);
  EXPECT_FALSE(bench.software.changed.empty()) << "the host's view shows it";
  bench.software.arrivals.clear();
  bench.net.set_node_description(h2.node, "renamed", 0);
  EXPECT_TRUE(bench.software.arrivals.empty());
}

/// IBA 16.1.3.5: PortRcvSwitchRelayErrors is of switches.
TEST(Attributes, AdaptersCountNoSwitchRelayErrors) {
  class Everything final : public DataCounters {
   public:
    void add_counters(PortPlace, mad::PortCounterValues& values) const override {
      values.dlid_mapping_errors = values.vl_mapping_errors = values.looping_errors = 1;
    }
  };
  const Everything counters;
  NetBench bench(topology_of(kTriangle));
  bench.net.set_data_counters(counters);
  EXPECT_EQ(bench.net.counters(bench.place("H2")).switch_relay_errors(), 0u);
  EXPECT_EQ(bench.net.counters({bench.place("S2").node, 1}).switch_relay_errors(), 3u);
}

}  // namespace
}  // namespace verbatim::fabric
