#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/virtual_fabric.h"

namespace verbatim::fabric {
namespace {

/// Programs at all hosts, of which each receives at once.
struct VirtualNet {
  explicit VirtualNet(const Topology& topology, ImageOptions options = {}) {
    options.is_active = true;
    options.ends_max = 32;
    fabric = std::move(VirtualFabric::create(topology, options).value());
    set_routes(image());
    for (const NodeIndex host : hosts_of(image())) {
      const NodeRecord& record = image().node(host);
      const std::uint32_t end =
          fabric->ends().take({record.topology_node, record.topology_port}).value();
      fabric->ends().steer(end, 1);
      hosts.push_back(host);
      ends.push_back(std::make_unique<End>(image(), end));
      by_end[end] = ends.size() - 1;
    }
  }
  const Image& image() const { return fabric->image(); }
  bool send(std::size_t from, std::size_t to, Mark mark, std::uint32_t bytes, std::uint8_t sl = 0) {
    return post_mark(*ends[from], lid_of(hosts[to]), sl, mark, bytes);
  }
  void push(std::size_t from) { ends[from]->push(fabric->walker()); }
  /// Runs all events. `on_packet(program, mark)`, `on_news(program)`.
  template <typename OnPacket, typename OnNews>
  void run(OnPacket on_packet, OnNews on_news) {
    while (fabric->next_event() != kNever) {
      const std::optional<std::uint32_t> end = fabric->step();
      ++steps;
      if (!end) continue;
      const std::size_t program = by_end.at(*end);
      ends[program]->receive(fabric->walker(), fabric->now(), [&](const IncomingPacket& packet) {
        on_packet(program, mark_of(packet));
      });
      if (ends[program]->take_credit_news()) on_news(program);
    }
  }
  std::unique_ptr<VirtualFabric> fabric;
  std::vector<NodeIndex> hosts;
  std::vector<std::unique_ptr<End>> ends;
  std::map<std::uint32_t, std::size_t> by_end;
  std::uint64_t steps = 0;
};

void set_rates(const Image& image, std::uint32_t ps_per_byte, std::uint32_t delay_ns) {
  for (std::uint32_t cable = 0; cable < image.cables(); ++cable) {
    for (const bool from_b : {false, true}) {
      image.link(image.link_of_cable(cable, from_b)).ps_per_byte = ps_per_byte;
      image.link(image.link_of_cable(cable, from_b)).delay_ns = delay_ns;
    }
  }
}

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

TEST(FabricVirtual, TwoSendersShareALinkByTheWeightsOfTheirLanes) {
  VirtualNet net(row_of_switches(2, 6));
  set_rates(net.image(), 1000, 0);
  set_lanes(net.image(), 2);
  wire::VlArbitrationTable weights;
  weights.entries[0] = {.lane = 0, .weight = 30};
  weights.entries[1] = {.lane = 1, .weight = 90};
  Tables(net.image()).set_arbitration(1, 1, 1, weights);  // The cable between the switches.
  std::array<std::uint32_t, 2> received{};
  const auto fill = [&](std::size_t program) {
    if (program % 2 != 0 || received[0] + received[1] > 4000) return;
    const auto lane = static_cast<std::uint8_t>(program / 2);
    while (net.send(program, 1, {.flow = lane}, 1000, lane)) {
    }
    net.push(program);
  };
  fill(0);
  fill(2);
  std::array<std::uint32_t, 2> at_4000{};
  net.run(
      [&](std::size_t, Mark mark) {
        ++received[mark.flow];
        if (received[0] + received[1] == 4000) at_4000 = received;
      },
      fill);
  EXPECT_NEAR(at_4000[0], 1000, 40);
  EXPECT_NEAR(at_4000[1], 3000, 40);
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
