// QP1: keys, performance management, and classes that nobody has.
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/management/net_test_util.h"
#include "wire/mad/management_packet.h"
#include "wire/performance/class_port_info.h"
#include "wire/performance/performance_packet.h"
#include "wire/performance/port_counters.h"

namespace verbatim::fabric {
namespace {

using wire::MadMethod;
using wire::MadStatus;
using wire::PerformanceAttribute;
using wire::PerformancePacket;

class GeneralDatagrams : public testing::Test {
 protected:
  GeneralDatagrams() { manage_triangle(bench); }

  ManagementDatagram datagram(Lid to, const PerformancePacket& packet) const {
    ManagementDatagram made{.path = {.dlid = to, .slid = Lid{4}},
                            .source_qp = Qpn(1),
                            .destination_qp = Qpn(1),
                            .qkey = raw(wire::kManagementQKey)};
    encode(packet, made.mad);
    return made;
  }
  /// What came to H1, the sender.
  std::optional<wire::MadHeader> send(const ManagementDatagram& datagram) {
    const std::size_t before = bench.software.arrivals.size();
    bench.net.send(bench.place("H1"), datagram, 0);
    for (std::size_t i = before; i < bench.software.arrivals.size(); ++i) {
      if (bench.software.arrivals[i].port != bench.place("H1")) continue;
      last_ = bench.software.arrivals[i].datagram;
      return *wire::decode_mad_header(last_.mad);
    }
    return std::nullopt;
  }
  std::optional<wire::PortCounters> counters(Lid lid, std::uint8_t port) {
    PerformancePacket packet{.method = MadMethod::get,
                             .attribute = PerformanceAttribute::port_counters};
    set_data(packet, wire::PortCounters{.port_select = port});
    const auto header = send(datagram(lid, packet));
    if (!header || header->status != 0) return std::nullopt;
    return wire::data_as<wire::PortCounters>(*wire::decode_performance_packet(last_.mad));
  }

  NetBench bench{topology_of(kTriangle)};
  ManagementDatagram last_;
};

TEST_F(GeneralDatagrams, PerformanceAgentsOfAllNodesAnswer) {
  for (std::uint16_t lid = 1; lid <= 7; ++lid) {
    const auto header = send(datagram(
        Lid{lid}, {.method = MadMethod::get, .attribute = PerformanceAttribute::class_port_info}));
    ASSERT_TRUE(header) << lid;
    EXPECT_EQ(header->method, MadMethod::get_response);
    EXPECT_EQ(last_.path.slid, Lid{lid});
    EXPECT_EQ(last_.source_qp, Qpn(1));
  }
}

TEST_F(GeneralDatagrams, CountersSeeTheDatagramsThatAskForThem) {
  const auto before = counters(Lid{7}, 1);
  const auto after = counters(Lid{7}, 1);
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->receive_packets, before->receive_packets + 1);
  EXPECT_EQ(after->transmit_packets, before->transmit_packets + 1);
  EXPECT_EQ(after->receive_data, before->receive_data + 72);
  EXPECT_FALSE(counters(Lid{7}, 3));  // An adapter of two ports.
}

TEST_F(GeneralDatagrams, LinkDownedCountsBothEnds) {
  bench.net.set_link(1, false, 0);
  const Link& link = bench.topology.links[1];
  EXPECT_EQ(counters(bench.net.port_info({link.a.node, 0}).lid, link.a.port)->link_downed, 1);
}

TEST_F(GeneralDatagrams, WrongKeysAreCountedNotAnswered) {
  const PerformancePacket request{.method = MadMethod::get,
                                  .attribute = PerformanceAttribute::class_port_info};
  ManagementDatagram wrong = datagram(Lid{7}, request);
  wrong.pkey = 0x8001;
  EXPECT_NE(send(wrong)->method, MadMethod::get_response);  // The trap comes instead.
  EXPECT_EQ(bench.net.port_info(bench.place("H4")).p_key_violations, 1);
  wrong = datagram(Lid{7}, request);
  wrong.qkey = 5;
  EXPECT_EQ(send(wrong)->method, MadMethod::trap);
  EXPECT_EQ(bench.net.port_info(bench.place("H4")).q_key_violations, 1);
}

TEST_F(GeneralDatagrams, LimitedMembersMeetFullOnesOnly) {
  wire::PKeyTable keys;
  keys.keys[0] = PKey{0x7fff};
  bench.set(bench.place("H1"), Lid{7}, wire::SubnetAttribute::p_key_table, 0, keys);
  const PerformancePacket request{.method = MadMethod::get,
                                  .attribute = PerformanceAttribute::class_port_info};
  ManagementDatagram asked = datagram(Lid{7}, request);
  EXPECT_EQ(send(asked)->method, MadMethod::get_response);
  asked.pkey = 0x7fff;
  bench.net.send(bench.place("H1"), asked, 0);
  EXPECT_EQ(bench.net.port_info(bench.place("H4")).p_key_violations, 1);
}

/// A switch at the requester's cable drops an answer with a limited key from a limited member.
TEST_F(GeneralDatagrams, AgentsAnswerWithTheirOwnKeys) {
  struct Row {
    const char* what;
    std::uint8_t management_class;
    std::uint8_t version;
    Lid to;
  };
  constexpr std::array kAgents{Row{"performance, of a host", 0x04, 1, Lid{7}},
                               Row{"performance, of a switch", 0x04, 1, Lid{1}},
                               Row{"refusal of a version", 0x04, 2, Lid{7}},
                               Row{"refusal of a class", 0x32, 1, Lid{1}}};
  struct Keys {
    std::uint16_t request;
    std::vector<PKey> own;
    std::uint16_t answer;
  };
  const std::array keys{Keys{0x7fff, {PKey{0xffff}}, 0xffff},
                        Keys{0xffff, {PKey{0x7fff}}, 0x7fff},
                        Keys{0xffff, {PKey{0xffff}}, 0xffff},
                        Keys{0xffff, {PKey{0x7fff}, PKey{0xffff}}, 0xffff},
                        Keys{0x9001, {PKey{0xffff}, PKey{0x1001}}, 0x1001},
                        Keys{0x1001, {PKey{0x7fff}, PKey{0x9001}}, 0x9001}};
  // The requester is a member of all partitions.
  wire::PKeyTable all;
  std::ranges::copy(std::array{PKey{0xffff}, PKey{0x9001}}, all.keys.begin());
  bench.set(bench.place("H1"), Lid{4}, wire::SubnetAttribute::p_key_table, 0, all);
  for (const auto& [what, management_class, version, to] : kAgents) {
    for (const auto& [request, own, answer] : keys) {
      wire::PKeyTable table;
      std::ranges::copy(own, table.keys.begin());
      bench.set(bench.place("H1"), to, wire::SubnetAttribute::p_key_table, 0, table);
      ManagementDatagram asked = datagram(
          to, {.method = MadMethod::get, .attribute = PerformanceAttribute::class_port_info});
      asked.mad[1] = std::byte{management_class};
      asked.mad[2] = std::byte{version};
      asked.pkey = request;
      const auto header = send(asked);
      ASSERT_TRUE(header) << what << ": " << request;
      EXPECT_EQ(header->method, MadMethod::get_response) << what;
      EXPECT_EQ(last_.pkey, answer) << what << ": a request with " << request;
    }
  }
}

TEST_F(GeneralDatagrams, ProgramsReportBadKeys) {
  const wire::BadKeyDetails last{.source_lid = Lid{7}, .destination_lid = Lid{5}, .key = 0x1001};
  bench.net.on_bad_key(bench.place("H2"), wire::TrapNumber::bad_p_key, last, 70'000, 0);
  EXPECT_EQ(bench.net.port_info(bench.place("H2")).p_key_violations, 0xffff) << "it sticks there";
  const auto& trap = bench.software.arrivals.back();
  EXPECT_EQ(trap.port, bench.place("H1")) << "of the manager";
  EXPECT_EQ(wire::decode_mad_header(trap.datagram.mad)->method, MadMethod::trap);
  bench.net.on_bad_key(bench.place("H2"), wire::TrapNumber::bad_q_key, last, 3, 0);
  EXPECT_EQ(bench.net.port_info(bench.place("H2")).q_key_violations, 3);
}

TEST_F(GeneralDatagrams, SwitchPortsKeepPartitionsApart) {
  change_port(bench, "S3", 1,
              [](wire::PortInfo& info) { info.partition_enforcement_outbound = true; });
  const PerformancePacket request{.method = MadMethod::get,
                                  .attribute = PerformanceAttribute::class_port_info};
  EXPECT_EQ(send(datagram(Lid{7}, request))->method, MadMethod::get_response);
  wire::PKeyTable keys;
  keys.keys[0] = PKey{0x8001};
  bench.set(bench.place("H1"), Lid{3}, wire::SubnetAttribute::p_key_table, 1 << 16, keys);
  EXPECT_EQ(send(datagram(Lid{7}, request))->method, MadMethod::trap);
  EXPECT_EQ(counters(Lid{3}, 1)->transmit_constraint_errors, 1);
}

TEST_F(GeneralDatagrams, SwitchPortsLetLimitedMembersSendToFullOnes) {
  change_port(bench, "S1", 1,
              [](wire::PortInfo& info) { info.partition_enforcement_inbound = true; });
  wire::PKeyTable limited;
  limited.keys[0] = PKey{0x7fff};
  bench.set(bench.place("H1"), Lid{1}, wire::SubnetAttribute::p_key_table, 1 << 16, limited);
  ManagementDatagram asked = datagram(
      Lid{7}, {.method = MadMethod::get, .attribute = PerformanceAttribute::class_port_info});
  asked.pkey = 0x7fff;
  EXPECT_EQ(send(asked)->method, MadMethod::get_response);
  asked.pkey = 0xffff;
  EXPECT_EQ(send(asked)->method, MadMethod::trap) << "its sender is no full member";
}

TEST_F(GeneralDatagrams, UnknownClassesAreRefusedBySwitchesAndGivenToHosts) {
  PerformancePacket request{.method = MadMethod::get};
  ManagementDatagram vendor = datagram(Lid{1}, request);
  vendor.mad[1] = std::byte{0x32};
  EXPECT_EQ(send(vendor)->status, raw(MadStatus::unsupported_attribute));
  vendor.path.dlid = Lid{7};
  EXPECT_FALSE(send(vendor));
  EXPECT_EQ(bench.software.arrivals.back().port, bench.place("H4"));
  EXPECT_EQ(bench.software.arrivals.back().datagram, vendor);
}

/// Of a program: it asks by the data path, and its answer comes to the software of its host.
TEST_F(GeneralDatagrams, QuestionsOfOtherQueuePairsAreAnsweredToThem) {
  const Qpn own{0x4003};
  ManagementDatagram question = datagram(
      Lid{7}, {.method = MadMethod::get, .attribute = PerformanceAttribute::class_port_info});
  question.source_qp = own;
  bench.net.arrive_by_data(bench.place("H4"), question, 0);
  const auto& answer = bench.software.arrivals.back();
  EXPECT_EQ(answer.port, bench.place("H1"));
  EXPECT_EQ(answer.datagram.destination_qp, own);
  EXPECT_EQ(wire::decode_mad_header(answer.datagram.mad)->method, MadMethod::get_response);

  question.mad[1] = std::byte{0x32};  // Of no agent: for the host's software.
  bench.net.arrive_by_data(bench.place("H4"), question, 0);
  EXPECT_EQ(bench.software.arrivals.back().port, bench.place("H4"));
  EXPECT_EQ(bench.software.arrivals.back().datagram, question);

  question.qkey = 5;
  bench.net.arrive_by_data(bench.place("H4"), question, 0);
  EXPECT_EQ(bench.net.port_info(bench.place("H4")).q_key_violations, 1);
}

/// Its keys are checked where its queue pair is known.
TEST_F(GeneralDatagrams, WhatIsForAProgramIsGivenToItsHostAsItIs) {
  ManagementDatagram answer = datagram(
      Lid{7}, {.method = MadMethod::get, .attribute = PerformanceAttribute::class_port_info});
  answer.destination_qp = Qpn{0x4003};
  answer.qkey = 5;
  EXPECT_FALSE(send(answer));
  EXPECT_EQ(bench.software.arrivals.back().port, bench.place("H4"));
  EXPECT_EQ(bench.software.arrivals.back().datagram, answer);
  answer.path.dlid = Lid{1};
  const auto before = bench.software.arrivals.size();
  EXPECT_FALSE(send(answer));  // A switch has no programs.
  EXPECT_EQ(bench.software.arrivals.size(), before);
}

TEST_F(GeneralDatagrams, OtherClassVersionsAreRefused) {
  ManagementDatagram other = datagram(Lid{1}, {.method = MadMethod::get});
  other.mad[2] = std::byte{2};
  EXPECT_EQ(send(other)->status, raw(MadStatus::bad_version));

  wire::Smp smp = NetBench::request(MadMethod::get, wire::SubnetAttribute::node_info, 0);
  ManagementDatagram subnet{.path = {.dlid = Lid{1}, .slid = Lid{4}}};
  encode(smp, subnet.mad);
  subnet.mad[2] = std::byte{2};
  EXPECT_EQ(send(subnet)->status, raw(MadStatus::bad_version));
}

TEST_F(GeneralDatagrams, PassOnlyActiveLinks) {
  change_port(bench, "S3", 1, [](wire::PortInfo& info) { info.state = wire::PortState::down; });
  bench.net.on_time(bench.net.deadline());
  EXPECT_EQ(bench.net.port_info(bench.place("H4")).state, wire::PortState::initialize);
  EXPECT_FALSE(counters(Lid{7}, 1));
  EXPECT_TRUE(
      bench.get<wire::NodeInfo>(bench.place("H1"), Lid{7}, wire::SubnetAttribute::node_info));
  EXPECT_EQ(counters(Lid{3}, 1)->transmit_discards, 1);
}

}  // namespace
}  // namespace verbatim::fabric
