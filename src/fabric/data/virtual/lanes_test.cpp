#include <gtest/gtest.h>

#include "fabric/data/virtual/virtual_net_for_test.h"

/// What lanes are for: to share a link by weights, and to pass others by.
namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kPacketBytes = 1000;
constexpr TimeNs kPacketTime = 1000;  // At a byte a nanosecond.
constexpr std::size_t kReceiver = 1;  // At the last switch.
constexpr std::size_t kBulk = 0;      // Hosts at the first one: service level and lane 0,
constexpr std::size_t kUrgent = 2;    // and 1.

wire::VlArbitrationTable table_of(std::initializer_list<wire::VlArbitrationEntry> entries) {
  wire::VlArbitrationTable table;
  std::ranges::copy(entries, table.entries.begin());
  return table;
}

/// Two switches. What goes to the receiver shares the cable between them and its own.
struct TwoLanes : VirtualNet {
  TwoLanes() : VirtualNet(row_of_switches(2, 4)) {
    set_rates(image(), 1000, 0);
    set_lanes(image(), 2);
  }
  template <typename Set>
  void for_shared_ports(Set set) {
    const PortRecord& to_host = image().port(image().node(hosts[kReceiver]), kCablePort);
    set(1, 1);
    set(2, image().link(to_host.in).start_port);
  }
  void fill(std::size_t program) {
    const auto lane = static_cast<std::uint8_t>(program == kUrgent);
    while (send(program, kReceiver, {.flow = lane}, kPacketBytes, lane)) {
    }
    push(program);
  }
};

TEST(FabricLanes, TwoServiceLevelsShareALinkByTheirWeights) {
  for (const unsigned weight : {32u, 64u, 160u}) {
    TwoLanes net;
    net.for_shared_ports([&](NodeIndex node, unsigned port) {
      Tables(net.image())
          .set_arbitration(node, port, 1,
                           table_of({{.lane = 0, .weight = 32},
                                     {.lane = 1, .weight = static_cast<std::uint8_t>(weight)}}));
    });
    std::array<std::uint32_t, 2> received{};
    const auto fill = [&](std::size_t program) {
      if (program != kReceiver && received[0] + received[1] < 6000) net.fill(program);
    };
    fill(kBulk);
    fill(kUrgent);
    net.run(
        [&](std::size_t, Mark mark) { received[mark.flow] += received[0] + received[1] < 6000; },
        fill);
    const double share = static_cast<double>(received[1]) / 6000;
    EXPECT_NEAR(share / (weight / (32.0 + weight)), 1, 0.05) << "weight " << weight;
  }
}

/// The longest time that an urgent packet needs, one at a time, beside bulk data.
TimeNs urgent_latency(bool has_priority) {
  TwoLanes net;
  if (has_priority) {
    net.for_shared_ports([&](NodeIndex node, unsigned port) {
      Tables tables(net.image());
      tables.set_arbitration(node, port, 1, table_of({{.lane = 0, .weight = 64}}));
      tables.set_arbitration(node, port, 3, table_of({{.lane = 1, .weight = 64}}));
      tables.set_high_limit(node, port, 255);
    });
  } else {
    set_lanes(net.image(), 1);
  }
  unsigned urgent = 0;
  TimeNs sent_at = 0;
  TimeNs longest = 0;
  const auto send_urgent = [&] {
    sent_at = net.fabric->now();
    EXPECT_TRUE(net.send(kUrgent, kReceiver, {.flow = 1}, kPacketBytes, 1));
    net.push(kUrgent);
    ++urgent;
  };
  const auto fill = [&](std::size_t program) {
    if (program == kBulk && urgent < 200) net.fill(program);
  };
  fill(kBulk);
  send_urgent();
  net.run(
      [&](std::size_t, Mark mark) {
        if (mark.flow != 1) return;
        if (urgent > 20) longest = std::max(longest, net.fabric->now() - sent_at);
        if (urgent < 200) send_urgent();
      },
      fill);
  EXPECT_EQ(urgent, 200u);
  return longest;
}

TEST(FabricLanes, AHighPriorityLaneWaitsForOnePacketAtEachHop) {
  constexpr TimeNs kAlone = 3 * kPacketTime;  // Three cables.
  EXPECT_LE(urgent_latency(true), kAlone + 2 * kPacketTime);
  EXPECT_GT(urgent_latency(false), 10 * kAlone) << "on the bulk data's lane";
}

}  // namespace
}  // namespace verbatim::fabric
