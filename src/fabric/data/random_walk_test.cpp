#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"

/// Random packets over random fabrics: order of each flow, nothing lost, credits right at any time.
namespace verbatim::fabric {
namespace {

class RandomWalk : public testing::TestWithParam<unsigned> {};

/// Sends and receives at random, and checks what comes.
class Traffic {
 public:
  Traffic(TestFabric& fabric, unsigned seed) : fabric_(fabric), random_(seed) {}

  void step() {
    const std::size_t program = random_(static_cast<unsigned>(fabric_.ends.size()));
    if (random_(3) == 0) return receive(program);
    for (unsigned burst = random_(20); burst != 0; --burst) send(program);
    fabric_.ends[program]->push(fabric_.walker());
  }
  void receive(std::size_t program) {
    for (const Mark& mark : fabric_.receive(program)) {
      Flow& flow = flows_[mark.flow];
      EXPECT_EQ(mark.number, flow.received) << "flow " << mark.flow;
      flow.received = mark.number + 1;
    }
  }
  void drain() {
    for (bool any = true; any;) {
      any = false;
      for (std::size_t i = 0; i < fabric_.ends.size(); ++i) {
        any = any || fabric_.ends[i]->has_packets();
        receive(i);
      }
    }
    for (const auto& [name, flow] : flows_) EXPECT_EQ(flow.received, flow.sent) << "flow " << name;
  }
  std::uint64_t sent() const { return sent_; }

 private:
  struct Flow {
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
  };
  void send(std::size_t from) {
    const std::size_t to = random_(static_cast<unsigned>(fabric_.ends.size()));
    const auto sl = static_cast<std::uint8_t>(random_(16));
    const auto name = static_cast<std::uint32_t>((from << 12 | to) << 4 | sl);
    const auto bytes = static_cast<std::uint32_t>(16 + random_(random_(8) == 0 ? 4200 : 100));
    if (!fabric_.send(from, to, {name, flows_[name].sent}, bytes, sl)) return;
    ++flows_[name].sent;
    ++sent_;
  }
  TestFabric& fabric_;
  Dice random_;
  std::map<std::uint32_t, Flow> flows_;
  std::uint64_t sent_ = 0;
};

TEST_P(RandomWalk, KeepsOrderAndLosesNothing) {
  const unsigned seed = GetParam();
  Dice random(seed);
  GenerateOptions shape;
  shape.hosts = 2 + random(12);
  shape.switch_ports = 8;
  constexpr std::array kTrees{Shape::fat_tree, Shape::full_mesh};
  ImageOptions options;
  options.block_capacity = 67 + random(200);  // At least one packet of 4,096 bytes.
  TestFabric fabric(seed % 2 == 0 ? row_of_switches(1 + random(4), shape.hosts)
                                  : generate(kTrees[random(2)], shape).value(),
                    options);
  set_lanes(fabric.image(), 1 + random(15));
  Traffic traffic(fabric, seed);
  for (int i = 0; i < 2000; ++i) {
    traffic.step();
    if (i % 50 != 0) continue;
    const auto faults = faults_of(fabric.image());
    ASSERT_TRUE(faults.empty()) << "step " << i << ": " << faults.front();
  }
  traffic.drain();
  EXPECT_GT(traffic.sent(), 1000u);
  const auto faults = faults_when_empty(fabric.image());
  EXPECT_TRUE(faults.empty()) << faults.front();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWalk, testing::Range(0u, 12u));

}  // namespace
}  // namespace verbatim::fabric
