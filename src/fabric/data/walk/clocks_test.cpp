// Programs whose clocks jump: what they write of times may delay a fabric for a moment, but never
// stop it.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/data/walk/repair.h"

namespace verbatim::fabric {
namespace {

/// A program's clock, which may be wrong.
struct OwnClock : SharedPolicy {
  const TimeNs* time = nullptr;
  std::int64_t ahead = 0;
  TimeNs now() const { return *time + static_cast<TimeNs>(ahead); }
};

struct Program {
  Program(const Image& image, const TimeNs* time, std::uint32_t mover)
      : walker(image, clock, mover) {
    clock.time = time;
  }
  OwnClock clock;
  Walker<OwnClock> walker;
};

/// A host each with a program, and the keeper; all in one thread and in virtual time.
class Clocks : public testing::TestWithParam<unsigned> {
 protected:
  explicit Clocks() : random_(GetParam()), fabric_(row_of_switches(3, 6), options()) {
    const Image& image = fabric_.image();
    for (LinkIndex i = 1; i < image.extent().links; ++i) {
      LinkRecord& link = image.link(i);
      if (image.is_of_end(i)) continue;
      link.ps_per_byte = 1000 << random_(4);
      if (random_(4) == 0) link.cable = CableTraits{.delay_ns = 5000};
    }
    for (std::size_t i = 0; i < fabric_.ends.size(); ++i) {
      programs_.push_back(std::make_unique<Program>(image, &time_, fabric_.mover->index()));
    }
    keeper_ = std::make_unique<Program>(image, &time_, fabric_.mover->index());
  }
  static ImageOptions options() {
    ImageOptions options;
    options.block_capacity = 80;
    return options;
  }

  void step() {
    const auto index = random_(static_cast<unsigned>(programs_.size()));
    Program& program = *programs_[index];
    time_ += random_(20) * kMicrosecond;
    if (random_(3) == 0) return receive(index);
    for (unsigned burst = random_(8); burst != 0; --burst) send(index);
    fabric_.ends[index]->push(program.walker);
  }
  void send(std::size_t from) {
    const auto to = random_(static_cast<unsigned>(programs_.size()));
    if (fabric_.send(from, to, {.number = sent_}, 16 + random_(4000))) ++sent_;
  }
  void receive(std::size_t index) {
    Program& program = *programs_[index];
    fabric_.ends[index]->receive(program.walker, program.clock.now(),
                                 [&](const IncomingPacket& /*packet*/) { ++received_; });
  }
  void jump() {
    constexpr std::array<std::int64_t, 5> kSeconds{0, 60, 3600, -1, 1};
    for (const auto& program : programs_) {
      if (random_(2) == 0) continue;
      program->clock.ahead = kSeconds[random_(kSeconds.size())] * std::int64_t{kSecond} +
                             std::int64_t{random_(1'000'000)};
    }
  }
  /// As the daemon does; programs whose clocks are right now take what comes.
  void pass(TimeNs time) {
    for (const TimeNs end = time_ + time; time_ < end; time_ += kMillisecond) {
      keeper_->walker.distrust_timers(time_);
      keeper_->walker.run_due(time_);
      for (std::size_t i = 0; i < programs_.size(); ++i) receive(i);
    }
  }
  std::uint64_t discards() const {
    std::uint64_t count = 0;
    for (LinkIndex i = 1; i < fabric_.image().extent().links; ++i) {
      const LinkRecord::Counters& counters = fabric_.image().link(i).counters;
      count += counters.hoq_discards + counters.lifetime_discards;
    }
    return count;
  }
  void expect_all_arrives_soon() {
    pass(20 * kMillisecond);
    for (std::size_t from = 0; from < programs_.size(); ++from) {
      for (std::size_t to = 0; to < programs_.size(); ++to) {
        const std::uint32_t before = received_;
        ASSERT_TRUE(fabric_.send(from, to, {}, 1000));
        fabric_.ends[from]->push(programs_[from]->walker);
        pass(2 * kMillisecond);
        ASSERT_EQ(received_, before + 1) << from << " to " << to;
      }
    }
  }

  Dice random_;
  TimeNs time_ = 10'000 * kSecond;
  TestFabric fabric_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::unique_ptr<Program> keeper_;
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
};

TEST_P(Clocks, ThatJumpDoNotStopAFabric) {
  for (int i = 0; i < 2000; ++i) {
    if (i % 50 == 0) jump();
    step();
  }
  for (const auto& program : programs_) program->clock.ahead = 0;
  pass(2 * kWaitMax);
  EXPECT_GT(sent_, 500u);
  EXPECT_EQ(received_, sent_) << "without lifetimes nothing is discarded";
  const auto faults = faults_when_empty(fabric_.image());
  EXPECT_TRUE(faults.empty()) << faults.front();
  expect_all_arrives_soon();
}

TEST_P(Clocks, ThatJumpWhilePacketsGrowOldDoNotStopAFabric) {
  for (LinkIndex i = 1; i < fabric_.image().extent().links; ++i) {
    fabric_.image().link(i).hoq_life_us = 16'000;
  }
  for (NodeIndex node = 1; node <= 3; ++node) {
    Tables(fabric_.image()).set_packet_lifetime(node, 60'000);
  }
  for (int i = 0; i < 2000; ++i) {
    if (i % 50 == 0) jump();
    step();
  }
  for (const auto& program : programs_) program->clock.ahead = 0;
  pass(2 * kWaitMax);
  EXPECT_EQ(received_ + discards(), sent_);
  const auto faults = faults_when_empty(fabric_.image());
  EXPECT_TRUE(faults.empty()) << faults.front();
  expect_all_arrives_soon();
}

/// While it lasts, too: one program whose clock is ahead holds up none of the others.
TEST_P(Clocks, OneThatIsAheadHoldsUpNoOther) {
  programs_[0]->clock.ahead = std::int64_t{60 * kSecond};
  for (int i = 0; i < 500; ++i) step();
  for (int i = 0; i < 100; ++i) receive(0);
  pass(2 * kWaitMax);
  EXPECT_EQ(received_, sent_);
  expect_all_arrives_soon();
}

INSTANTIATE_TEST_SUITE_P(Seeds, Clocks, testing::Range(0u, 12u));

TEST(FabricClock, IsTheMachinesForAProgramWithoutAnother) {
  EXPECT_FALSE(has_foreign_clock());
  const TimeNs before = monotonic_now();
  const TimeNs now = fabric_now();
  EXPECT_GE(now, before);
  EXPECT_LE(now, monotonic_now());
}

}  // namespace
}  // namespace verbatim::fabric
