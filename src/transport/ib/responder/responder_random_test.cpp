#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "transport/ib/responder/responder.h"
#include "transport/ib/responder/responder_test_util.h"

/// Random packets in random order: invariants that hold whatever a peer sends.
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

/// A peer that mostly obeys the rules; its messages have one or two packets.
class Peer {
 public:
  explicit Peer(Chance& chance) : chance_(chance) {}

  /// Returns the next packet in order, or sometimes any other one.
  Request next(int expected) {
    Request request = within_message_ ? second_packet(expected) : new_request(expected);
    if (chance_.one_in(3)) request = std::move(request).ack();
    if (chance_.one_in(400)) request = std::move(request).key(MemoryKey{1});
    if (chance_.one_in(400)) request.position = static_cast<Position>(chance_.below(4));
    if (chance_.one_in(400)) request.bytes = static_cast<std::size_t>(chance_.below(300));
    return request;
  }
  void accepted(const Request& request) {
    within_message_ = request.position == Position::first;
    verb_ = request.verb;
  }

 private:
  Request new_request(int psn) {
    const bool one_packet = chance_.one_in(2);
    const Position position = one_packet ? Position::only : Position::first;
    const std::size_t bytes = one_packet ? static_cast<std::size_t>(chance_.below(257)) : kMtu;
    switch (chance_.below(6)) {
      case 0:
        return read(psn, static_cast<std::uint32_t>(chance_.below(1200)));
      case 1:
        return fetch_add(psn, 1);
      case 2:
        return write(position, psn, bytes, one_packet ? static_cast<std::uint32_t>(bytes) : 300);
      case 3:
        if (one_packet) return send(position, psn, bytes).immediate(1);
        [[fallthrough]];
      default:
        return send(position, psn, bytes);
    }
  }
  Request second_packet(int psn) {
    if (verb_ == Verb::send) return send(Position::last, psn, 1);
    Request request = write(Position::last, psn, 44);
    return chance_.one_in(2) ? std::move(request).immediate(1) : request;
  }

  Chance& chance_;
  bool within_message_ = false;
  Verb verb_{};
};

/// Receives complete in the order of posting and once each; an atomic is executed once per PSN.
class Invariants {
 public:
  void on_effects(const std::string& effects, int psn) {
    static const std::string kComplete = "complete #";
    const std::size_t at = effects.find(kComplete);
    if (at != std::string::npos) {
      EXPECT_EQ(std::stoul(effects.substr(at + kComplete.size())), completed_++) << effects;
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

/// Returns the number of packets before the responder failed.
int run(std::uint32_t seed, Service service) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Chance chance(seed);
  Bench bench(Psn(0xffffc0), service, static_cast<std::uint8_t>(2 + chance.below(4)));
  Peer peer(chance);
  Invariants invariants;
  std::vector<Request> sent;
  std::size_t posted = 0;
  int steps = 0;
  for (; steps < 300 && !bench.responder.failed(); ++steps) {
    if (chance.one_in(2)) {
      bench.post(chance.one_in(200) ? 10 : 0x10000);
      ++posted;
    }
    const int before = bench.expected();
    const bool again = !sent.empty() && chance.one_in(4);
    const std::size_t back = std::min<std::size_t>(sent.size(), 6);
    Request request =
        again
            ? sent[sent.size() - 1 - static_cast<std::size_t>(chance.below(static_cast<int>(back)))]
            : peer.next(before);
    if (!again && chance.one_in(10)) request.psn += 1 + chance.below(3);
    const std::string effects = bench.in(request);
    invariants.on_effects(effects, request.psn);
    if (bench.expected() != before && !again) {
      peer.accepted(request);
      sent.push_back(request);
    }
    if (service == Service::rc && request.psn != before) {
      EXPECT_EQ(effects, "") << "only the expected packet does anything";
      EXPECT_EQ(bench.expected(), before);
    }
    while (bench.responder.has_output() && !chance.one_in(6)) {
      EXPECT_EQ(service, Service::rc) << "UC says nothing";
      bench.next();
    }
  }
  const std::size_t current = bench.responder.take_current_receive() ? 1 : 0;
  EXPECT_EQ(invariants.completed() + current + bench.receives_left(), posted);
  bench.out();
  return steps;
}

TEST(RandomPackets, RcKeepsItsInvariants) {
  int steps = 0;
  for (std::uint32_t seed = 1; seed <= 1'000; ++seed) steps += run(seed, Service::rc);
  EXPECT_GT(steps, 50'000) << "the responders failed too soon to show much";
}

TEST(RandomPackets, UcKeepsItsInvariants) {
  int steps = 0;
  for (std::uint32_t seed = 1; seed <= 500; ++seed) steps += run(seed, Service::uc);
  EXPECT_EQ(steps, 500 * 300) << "a peer cannot make a UC responder fail";
}

}  // namespace
}  // namespace verbatim::transport::bench
