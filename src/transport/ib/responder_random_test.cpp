#include <algorithm>
#include <cstdint>
#include <random>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "transport/ib/responder.h"
#include "transport/ib/responder_test_bench.h"

/// Any packets in any order: what must hold whatever a peer sends.
namespace verbatim::transport::bench {
namespace {

class Chance {
 public:
  explicit Chance(std::uint32_t seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<std::uint32_t>(bound)); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::mt19937 engine_;
};

/// Mostly what a peer could send, at a PSN near the expected one.
Request any_request(Chance& chance, int expected) {
  const int psn = chance.one_in(3) ? expected - 6 + chance.below(9) : expected;
  const auto position = static_cast<Position>(chance.below(4));
  const bool full = position == Position::first || position == Position::middle;
  const std::size_t bytes =
      full && !chance.one_in(50) ? kMtu : static_cast<std::size_t>(chance.below(257));
  Request request;
  switch (chance.below(6)) {
    case 0:
      request = read(psn, static_cast<std::uint32_t>(chance.below(1200)),
                     static_cast<std::uint64_t>(chance.below(3)) * kMtu);
      break;
    case 1:
      request = fetch_add(psn, 1);
      break;
    case 2:
      request = write(position, psn, bytes, full ? 512u : static_cast<std::uint32_t>(bytes));
      break;
    default:
      request = send(position, psn, bytes);
      break;
  }
  if (position == Position::last || position == Position::only) {
    const bool takes = request.verb == Verb::send || request.verb == Verb::write;
    if (takes && chance.one_in(4)) request = std::move(request).immediate(1);
  }
  if (chance.one_in(3)) request = std::move(request).ack();
  if (chance.one_in(200)) request = std::move(request).key(MemoryKey{1});
  return request;
}

/// Receives complete in the order of posting and once each; atomics are executed once for each PSN.
class Invariants {
 public:
  void on_effects(const std::string& effects, int psn) {
    static const std::regex kComplete("complete #([0-9]+)");
    std::smatch match;
    if (std::regex_search(effects, match, kComplete)) {
      EXPECT_EQ(std::stoul(match[1]), completed_++) << effects;
    }
    if (effects.find("fetch-add") != std::string::npos) {
      EXPECT_TRUE(atomics_.insert(psn).second) << "executed twice: " << psn;
    }
  }
  std::size_t completed() const { return completed_; }

 private:
  std::size_t completed_ = 0;
  std::set<int> atomics_;
};

void run(std::uint32_t seed, Service service) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Chance chance(seed);
  Bench bench(Psn(0xffffc0), service, static_cast<std::uint8_t>(1 + chance.below(4)));
  Invariants invariants;
  std::size_t posted = 0;
  for (int step = 0; step < 200; ++step) {
    if (chance.one_in(3)) {
      bench.post(chance.one_in(50) ? 10 : 0x10000);
      ++posted;
    }
    const int before = bench.expected();
    const Request request = any_request(chance, before);
    const std::string effects = bench.in(request);
    invariants.on_effects(effects, request.psn);
    if (service == Service::rc && request.psn != before) {
      ASSERT_EQ(effects, "") << "only the expected packet does anything";
      ASSERT_EQ(bench.expected(), before);
    }
    while (bench.responder.has_output() && !chance.one_in(3)) {
      ASSERT_EQ(service, Service::rc) << "UC says nothing";
      bench.next();
    }
  }
  const std::size_t current = bench.responder.take_current_receive() ? 1 : 0;
  EXPECT_EQ(invariants.completed() + current + bench.receives_left(), posted);
  if (service == Service::rc) bench.out();
}

TEST(RandomPackets, RcKeepsItsInvariants) {
  for (std::uint32_t seed = 1; seed <= 1'000; ++seed) run(seed, Service::rc);
}

TEST(RandomPackets, UcKeepsItsInvariants) {
  for (std::uint32_t seed = 1; seed <= 500; ++seed) run(seed, Service::uc);
}

}  // namespace
}  // namespace verbatim::transport::bench
