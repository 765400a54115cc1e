#include <gtest/gtest.h>

#include "fabric/data/virtual/virtual_net_for_test.h"

namespace verbatim::fabric {
namespace {

TEST(FabricVirtual, APacketTakesTheTimeOfItsLinksAndCables) {
  VirtualNet net(row_of_switches(3, 2));
  set_rates(net.image(), 1000, 50);  // A byte a nanosecond.
  const TimeNs begin = net.fabric->now();
  ASSERT_TRUE(net.send(0, 1, {}, 1000));
  net.push(0);
  TimeNs arrived = 0;
  net.run([&](std::size_t, Mark) { arrived = net.fabric->now(); }, [](std::size_t) {});
  // Four cables: from and to the hosts, and between the switches; each stores and forwards.
  EXPECT_EQ(arrived - begin, 4 * (1000u + 50));
  EXPECT_TRUE(faults_when_empty(net.image()).empty());
}

TEST(FabricVirtual, ASaturatedLinkHasExactlyItsRate) {
  VirtualNet net(row_of_switches(1, 2));
  set_rates(net.image(), 2000, 0);
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  const auto fill = [&](std::size_t) {
    while (sent < 5000 && net.send(0, 1, {.number = sent}, 1000)) ++sent;
    net.push(0);
  };
  const TimeNs begin = net.fabric->now();
  fill(0);
  net.run([&](std::size_t, Mark mark) { EXPECT_EQ(mark.number, received++); }, fill);
  EXPECT_EQ(received, 5000u);
  EXPECT_EQ(net.fabric->now() - begin, 5000u * 2000 + 2000);
}

/// Sends over a cable with bit errors. Returns the packets that have arrived, as a hash.
std::uint64_t run_with_errors(std::uint64_t seed, std::uint32_t& arrived, std::uint64_t& damaged) {
  VirtualNet net(row_of_switches(2, 2));
  set_rates(net.image(), 1000, 50);
  LinkRecord& noisy = net.image().link(net.image().port(net.image().node(1), 1).out);
  noisy.bit_errors = BitErrors(1e-5, seed);
  noisy.cable = CableTraits{.delay_ns = 50, .has_bit_errors = 1};
  std::uint32_t sent = 0;
  std::uint64_t happened = 0;
  const auto fill = [&](std::size_t program) {
    while (program == 0 && sent < 2000 && net.send(0, 1, {.number = sent}, 1000)) ++sent;
    net.push(program);
  };
  fill(0);
  net.run(
      [&](std::size_t, Mark mark) {
        happened = happened * 31 + mark.number;
        ++arrived;
      },
      fill);
  EXPECT_EQ(sent, 2000u);
  EXPECT_TRUE(faults_when_empty(net.image()).empty());
  damaged = noisy.damage.packets;
  EXPECT_GE(noisy.damage.symbol_errors, damaged);
  EXPECT_EQ(noisy.integrity_errors, damaged) << "LocalPhyErrors is 0";
  EXPECT_EQ(noisy.lanes[0].packets, 2000u);  // They were on the cable.
  return happened;
}

TEST(FabricVirtual, DamagedPacketsAreCountedAndTheirCreditComesBack) {
  std::uint32_t arrived = 0;
  std::uint64_t damaged = 0;
  const std::uint64_t happened = run_with_errors(1, arrived, damaged);
  EXPECT_EQ(arrived + damaged, 2000u);
  EXPECT_NEAR(static_cast<double>(damaged), 2000 * 0.077, 50);  // Of 8,016 bits each.
  EXPECT_EQ(run_with_errors(1, arrived, damaged), happened);
  EXPECT_NE(run_with_errors(2, arrived, damaged), happened);
}

class VirtualRun : public testing::TestWithParam<unsigned> {};

/// Sends at random, checks credits after each event. Returns what happened, as a number.
std::uint64_t random_run(unsigned seed) {
  Dice dice(seed);
  ImageOptions options;
  options.block_capacity = 70 + dice(100);
  VirtualNet net(row_of_switches(1 + dice(3), 2 + dice(6)), options);
  set_lanes(net.image(), 1 + dice(4));
  set_rates(net.image(), dice(3) * 500, dice(200));
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> flows;
  const auto send = [&](std::size_t from) {
    for (unsigned burst = dice(10); burst != 0; --burst) {
      const auto to = static_cast<std::size_t>(dice(static_cast<unsigned>(net.ends.size())));
      const auto sl = static_cast<std::uint8_t>(dice(16));
      const auto flow = static_cast<std::uint32_t>((from << 8 | to) << 8 | sl);
      if (net.send(from, to, {flow, flows[flow].first}, 16 + dice(4000), sl)) ++flows[flow].first;
    }
    net.push(from);
  };
  std::uint64_t happened = 0;
  for (int round = 0; round < 40; ++round) {
    for (std::size_t i = 0; i < net.ends.size(); ++i) send(i);
    net.run(
        [&](std::size_t program, Mark mark) {
          EXPECT_EQ(mark.number, flows[mark.flow].second++);
          happened = happened * 31 + net.fabric->now() + program;
        },
        [](std::size_t) {});
    const auto faults = faults_when_empty(net.image());
    EXPECT_TRUE(faults.empty()) << faults.front();
  }
  for (const auto& [flow, counts] : flows) EXPECT_EQ(counts.first, counts.second);
  return happened;
}

TEST_P(VirtualRun, LosesNothingAndIsTheSameEachTime) {
  const std::uint64_t happened = random_run(GetParam());
  EXPECT_NE(happened, 0u);
  EXPECT_EQ(random_run(GetParam()), happened);
}

INSTANTIATE_TEST_SUITE_P(Seeds, VirtualRun, testing::Range(0u, 6u));

}  // namespace
}  // namespace verbatim::fabric
