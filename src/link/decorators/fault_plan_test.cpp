#include "link/decorators/fault_plan.h"

#include <gtest/gtest.h>

#include "link/decorators/packet_history.h"

namespace verbatim::link {
namespace {

FaultPlan plan_of(std::string_view text) {
  auto plan = FaultPlan::parse(text);
  EXPECT_TRUE(plan) << plan.error().text;
  return plan.value_or(FaultPlan{});
}

std::string refusal_of(std::string_view text) {
  const auto plan = FaultPlan::parse(text);
  EXPECT_FALSE(plan) << text;
  if (plan) return {};
  EXPECT_EQ(plan.error().code, EINVAL);
  return plan.error().text;
}

constexpr wire::Opcode kSendOnly =
    wire::opcode_of(wire::Service::rc, wire::Verb::send, wire::Position::only);
constexpr wire::Opcode kWriteOnly =
    wire::opcode_of(wire::Service::rc, wire::Verb::write, wire::Position::only);

TEST(FaultPlan, ReadsAllThatItWrites) {
  for (const char* const text : {
           "loss=1%,delay=100us..1ms,duplicate=0.1%,reorder=1%,corrupt=0.01%,seed=7",
           "loss=100%",
           "loss=0.0000001%",
           "delay=1500ns",
           "delay=0s..10s",
           "loss=5%,direction=both",
           "corrupt=5%,direction=receive,peer=127.0.0.2+fd00::2,opcode=write+read-response+ack",
           "off",
       }) {
    EXPECT_EQ(plan_of(text).text(), text);
  }
}

TEST(FaultPlan, OneWithoutFaultsIsOffWhateverItSays) {
  EXPECT_EQ(FaultPlan::parse("loss=0%,seed=7,direction=both").value(), FaultPlan{});
}

TEST(FaultPlan, TimesMayHaveFractions) {
  EXPECT_EQ(plan_of("delay=1.5ms").delay_max, 1'500 * kMicrosecond);
  EXPECT_EQ(plan_of("delay=0.25us..1us").delay_min, 250u);
}

TEST(FaultPlan, RefusalsSayWhatToWrite) {
  EXPECT_NE(refusal_of("loss=1").find("as in '1%'"), std::string::npos);
  EXPECT_NE(refusal_of("loss=101%").find("0% to 100%"), std::string::npos);
  EXPECT_NE(refusal_of("loss=-1%").find("0% to 100%"), std::string::npos);
  EXPECT_NE(refusal_of("loss=%").find("0% to 100%"), std::string::npos);
  EXPECT_NE(refusal_of("delay=5").find("with units"), std::string::npos);
  EXPECT_NE(refusal_of("delay=2ms..1ms").find("a range"), std::string::npos);
  EXPECT_NE(refusal_of("delay=11s").find("up to 10s"), std::string::npos);
  EXPECT_NE(refusal_of("delay=99999999999999s").find("up to 10s"), std::string::npos);
  EXPECT_NE(refusal_of("seed=seven").find("a number"), std::string::npos);
  EXPECT_NE(refusal_of("lost=1%").find("no fault 'lost'"), std::string::npos);
  EXPECT_NE(refusal_of("loss").find("has no value"), std::string::npos);
  EXPECT_NE(refusal_of("").find("has no value"), std::string::npos);
  EXPECT_NE(refusal_of("loss=1%,").find("has no value"), std::string::npos);
  EXPECT_NE(refusal_of("peer=here").find("IP addresses"), std::string::npos);
  EXPECT_NE(refusal_of("opcode=sned").find(" send write read "), std::string::npos);
  EXPECT_NE(refusal_of("direction=up").find("'receive' or 'both'"), std::string::npos);
  EXPECT_NE(refusal_of("delay=1ms,direction=both").find("the peer's node"), std::string::npos);
}

TEST(FaultPlan, FiltersByDirectionPeerAndOpcode) {
  const auto peer = *SocketAddress::parse("127.0.0.2", kRocePort);
  const auto other = *SocketAddress::parse("127.0.0.3", kRocePort);
  const FaultPlan all = plan_of("loss=1%");
  EXPECT_TRUE(all.chooses(Direction::send, other, wire::Opcode{0xff}));
  EXPECT_FALSE(all.chooses(Direction::receive, other, kSendOnly));
  const FaultPlan few = plan_of("loss=1%,direction=receive,peer=127.0.0.2,opcode=write");
  EXPECT_TRUE(few.chooses(Direction::receive, peer, kWriteOnly));
  EXPECT_FALSE(few.chooses(Direction::send, peer, kWriteOnly));
  EXPECT_FALSE(few.chooses(Direction::receive, other, kWriteOnly));
  EXPECT_FALSE(few.chooses(Direction::receive, peer, kSendOnly));
}

TEST(FaultPlan, EachFaultHitsItsShareOfPackets) {
  const FaultPlan plan = plan_of("loss=1%,duplicate=10%,reorder=0.1%,corrupt=50%,seed=3");
  constexpr std::int32_t kPackets = 1'000'000;
  int lost = 0, duplicated = 0, reordered = 0, corrupted = 0, both = 0;
  for (std::int32_t i = 0; i < kPackets; ++i) {
    const auto decision = plan.decide({.offset = i, .attempt = 1, .opcode = kSendOnly});
    lost += decision.lose;
    duplicated += decision.duplicate;
    reordered += decision.reorder;
    corrupted += decision.corrupt;
    both += decision.duplicate && decision.corrupt;
  }
  // Five standard deviations.
  EXPECT_NEAR(lost, 10'000, 500);
  EXPECT_NEAR(duplicated, 100'000, 1'500);
  EXPECT_NEAR(reordered, 1'000, 160);
  EXPECT_NEAR(corrupted, 500'000, 2'500);
  EXPECT_NEAR(both, 50'000, 1'100);
}

TEST(FaultPlan, AllOrNoneAreHitAtTheEndsOfTheScale) {
  const FaultPlan all = plan_of("loss=100%");
  const FaultPlan none = plan_of("loss=0%,corrupt=100%");
  for (std::int32_t i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(all.decide({.offset = i}).lose);
    EXPECT_FALSE(none.decide({.offset = i}).lose);
  }
}

TEST(FaultPlan, DelaysFillTheirRangeEvenly) {
  const FaultPlan plan = plan_of("delay=100us..1ms,seed=5");
  TimeNs least = kNever, most = 0, sum = 0;
  constexpr std::int32_t kPackets = 100'000;
  for (std::int32_t i = 0; i < kPackets; ++i) {
    const TimeNs delay = plan.decide({.offset = i}).delay;
    least = std::min(least, delay);
    most = std::max(most, delay);
    sum += delay;
  }
  EXPECT_GE(least, 100 * kMicrosecond);
  EXPECT_LE(least, 101 * kMicrosecond);
  EXPECT_LE(most, kMillisecond);
  EXPECT_GE(most, 999 * kMicrosecond);
  EXPECT_NEAR(static_cast<double>(sum) / kPackets, 550e3, 5e3);
}

TEST(FaultPlan, SeedAndPacketDecideAndNothingElse) {
  const FaultPlan plan = plan_of("loss=50%,seed=7");
  const FaultPlan again = plan_of("loss=50%,corrupt=50%,seed=7");
  const FaultPlan other = plan_of("loss=50%,seed=8");
  int differ = 0, differ_by_attempt = 0;
  for (std::int32_t i = 0; i < 1'000; ++i) {
    const PacketIdentity packet{.flow = 2, .offset = i, .attempt = 1, .opcode = kSendOnly};
    PacketIdentity repeated = packet;
    repeated.attempt = 2;
    EXPECT_EQ(plan.decide(packet).lose, again.decide(packet).lose);
    differ += plan.decide(packet).lose != other.decide(packet).lose;
    differ_by_attempt += plan.decide(packet).lose != plan.decide(repeated).lose;
  }
  EXPECT_NEAR(differ, 500, 80);
  EXPECT_NEAR(differ_by_attempt, 500, 80);
}

wire::Bth packet(std::uint32_t qpn, std::uint32_t psn, wire::Opcode opcode = kSendOnly) {
  return {.opcode = opcode, .dest_qp = Qpn(qpn), .psn = Psn(psn)};
}

TEST(PacketHistory, NumbersFlowsAndCountsAttempts) {
  PacketHistory history;
  const auto peer = *SocketAddress::parse("127.0.0.2", kRocePort);
  const auto note = [&](const wire::Bth& bth) { return history.note(Direction::send, peer, bth); };
  const auto first = note(packet(0x4001, 0xffffff));
  EXPECT_EQ(first.flow, 0u);
  EXPECT_EQ(first.offset, 0);
  EXPECT_EQ(first.attempt, 1u);
  EXPECT_EQ(note(packet(0x4001, 0)).offset, 1);  // PSNs wrap.
  EXPECT_EQ(note(packet(0x4001, 0xffffff)).attempt, 2u);
  EXPECT_EQ(note(packet(0x4002, 5)).flow, 1u);
  constexpr wire::Opcode kAck =
      wire::opcode_of(wire::Service::rc, wire::Verb::acknowledge, wire::Position::only);
  const auto response = note(packet(0x4001, 0xffffff, kAck));
  EXPECT_EQ(response.flow, 2u);
  EXPECT_EQ(response.attempt, 1u);
  EXPECT_EQ(history.note(Direction::receive, peer, packet(0x4001, 3)).flow, 3u);
}

TEST(FaultPlan, LinksOfInfinibandLoseAndDamage) {
  EXPECT_TRUE(plan_of("loss=1%,corrupt=1%,direction=both,opcode=write").check_for_infiniband());
  for (const char* const cannot :
       {"duplicate=1%", "reorder=1%", "delay=1ms", "loss=1%,peer=10.0.0.1"}) {
    const auto checked = plan_of(cannot).check_for_infiniband();
    ASSERT_FALSE(checked) << cannot;
    EXPECT_EQ(checked.error().code, EOPNOTSUPP);
  }
}

TEST(PacketHistory, IdentityDependsNeitherOnNumbersNorOnFirstPsn) {
  PacketHistory one, other;
  const auto peer = *SocketAddress::parse("127.0.0.2", kRocePort);
  const FaultPlan plan = plan_of("loss=50%,seed=1");
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    const auto a = plan.decide(one.note(Direction::send, peer, packet(0x4001, 100 + i)));
    const auto b = plan.decide(other.note(Direction::send, peer, packet(0x8001, 0xfffff0 + i)));
    ASSERT_EQ(a.lose, b.lose);
  }
}

TEST(PacketHistory, IsBounded) {
  PacketHistory history;
  const auto peer = *SocketAddress::parse("::1", kRocePort);
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < 2 * PacketHistory::kFlowsMax; ++i) {
    most = std::max(most, history.note(Direction::send, peer, packet(i, 0)).flow);
  }
  EXPECT_EQ(most, PacketHistory::kFlowsMax - 1);
}

}  // namespace
}  // namespace verbatim::link
