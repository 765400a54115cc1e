#include <array>

#include <gtest/gtest.h>

#include "sim/pair.h"

/// Tests of the simulation itself: it replays, and its checkers find violations.
namespace verbatim::sim {
namespace {

using transport::Operation;
using transport::Status;

TEST(Network, SameSeedSameFate) {
  const auto fates = [](std::uint64_t seed) {
    Random random(seed);
    Network network({.loss = 0.2, .duplication = 0.2, .reordering = 0.3, .corruption = 0.1},
                    random);
    for (int i = 0; i < 200; ++i) {
      network.send(1, static_cast<TimeNs>(i) * kMicrosecond,
                   [i](auto& bytes) { bytes.push_back(static_cast<std::byte>(i)); });
    }
    std::vector<std::pair<TimeNs, std::byte>> arrivals;
    while (network.next_arrival() != kNever) {
      const TimeNs at = network.next_arrival();
      network.deliver_next([&](int, ByteSpan bytes) { arrivals.emplace_back(at, bytes[0]); });
    }
    EXPECT_GT(network.counters().lost, 0u);
    EXPECT_GT(network.counters().duplicated, 0u);
    EXPECT_GT(network.counters().reordered, 0u);
    EXPECT_GT(network.counters().corrupted, 0u);
    return arrivals;
  };
  EXPECT_EQ(fates(5), fates(5));
  EXPECT_NE(fates(5), fates(6));
}

TEST(Network, FullReceiveBufferLosesPackets) {
  Random random(1);
  Network network({.receive_byte_ns = 1, .receive_buffer_bytes = 5000}, random);
  for (int i = 0; i < 10; ++i) {
    network.send(0, 0, [](auto& bytes) { bytes.resize(1232); });  // 2,000 bytes with the overhead.
  }
  EXPECT_EQ(network.counters().overrun, 8u);
}

TEST(SendCompletions, FindsWhatIsMissingTwiceOrOutOfOrder) {
  SendCompletions missing;
  missing.posted(0);
  missing.finish();
  EXPECT_EQ(missing.violations().size(), 1);

  SendCompletions twice;
  twice.posted(0);
  twice.completed(0, Status::success);
  EXPECT_TRUE(twice.violations().empty());
  twice.completed(0, Status::success);
  EXPECT_FALSE(twice.violations().empty());

  SendCompletions order;
  order.posted(0);
  order.posted(1);
  order.completed(1, Status::success);
  EXPECT_FALSE(order.violations().empty());

  SendCompletions success_after_failure;
  success_after_failure.posted(0);
  success_after_failure.posted(1);
  success_after_failure.completed(0, Status::remote_access_error);
  success_after_failure.completed(1, Status::success);
  EXPECT_FALSE(success_after_failure.violations().empty());
}

TEST(Deliveries, FindsOtherBytesRepetitionsAndLosses) {
  constexpr std::array kOne{std::byte{1}};
  constexpr std::array kTwo{std::byte{2}};
  const auto message = [](ByteSpan bytes) {
    return ExpectedMessage{.bytes = {bytes.begin(), bytes.end()}};
  };
  const auto violations = [&](Promise promise, std::vector<ByteSpan> sent,
                              std::vector<ByteSpan> received) {
    Deliveries deliveries(promise);
    for (const ByteSpan bytes : sent) deliveries.sent(message(bytes));
    std::uint64_t ticket = 0;
    for (const ByteSpan bytes : received) {
      deliveries.received({.ticket = ticket++, .byte_count = bytes.size(), .bytes = bytes});
    }
    deliveries.finish();
    return deliveries.violations().size();
  };
  EXPECT_EQ(violations(Promise::exactly_once, {kOne, kTwo}, {kOne, kTwo}), 0);
  EXPECT_NE(violations(Promise::exactly_once, {kOne, kTwo}, {kTwo, kOne}), 0);
  EXPECT_NE(violations(Promise::exactly_once, {kOne, kTwo}, {kOne}), 0);
  EXPECT_NE(violations(Promise::exactly_once, {kOne}, {kOne, kOne}), 0);
  EXPECT_EQ(violations(Promise::at_most_once, {kOne, kTwo}, {kTwo}), 0);
  EXPECT_NE(violations(Promise::at_most_once, {kOne, kTwo}, {kTwo, kOne}), 0);
  EXPECT_EQ(violations(Promise::intact, {kOne, kTwo}, {kTwo, kOne, kOne}), 0);
  EXPECT_NE(violations(Promise::intact, {kOne}, {kTwo}), 0);
}

TEST(Pair, ReportsAHang) {
  Pair pair({.timeout = 0, .retry_count = 0}, {.loss = 1}, 1);
  pair[0].post({.operation = Operation::send, .length = 1}, {0, 1});
  EXPECT_FALSE(pair.run_until_complete(60 * kSecond));
}

}  // namespace
}  // namespace verbatim::sim
