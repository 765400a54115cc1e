#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/workload.h"

/// Requester and responder when the network is gone, or late, for 1 ms to 100 s at any moment:
/// a deadline that was served is later than now, what is sent meanwhile is bounded, and everything
/// ends.
namespace verbatim::sim {
namespace {

using transport::Operation;
using transport::Status;

constexpr std::uint32_t kRequests = 12;
constexpr std::uint32_t kPacketsMax = 6;  // Of a message.

PairOptions random_pair(Random& random) {
  return {.service = random.chance(0.5) ? wire::Service::rc : wire::Service::xrc,
          .path_mtu = Mtu::k256,
          .depth = static_cast<std::uint32_t>(random.between(1, 16)),
          .timeout = static_cast<std::uint8_t>(random.below(32)),
          .retry_count = static_cast<std::uint8_t>(random.below(8)),
          .rnr_retry = static_cast<std::uint8_t>(random.below(8)),
          .max_rd_atomic = static_cast<std::uint8_t>(random.between(1, 4)),
          .min_rnr_timer = static_cast<std::uint8_t>(random.below(32))};
}

Violations run_once(std::uint64_t seed) {
  Random random(seed);
  PairOptions options = random_pair(random);
  const WorkloadOptions load{
      .operations = {Operation::send, Operation::write, Operation::write_with_immediate,
                     Operation::read, Operation::fetch_and_add, Operation::flush},
      .requests = kRequests,
      .message_packets_max = kPacketsMax,
      .receive_posting = random.chance(0.3) ? 0.05 : 1};
  options.memory_bytes = Workload::memory_bytes(options, load);
  Pair pair(options, {.loss = random.chance(0.3) ? 0.05 : 0}, random.next());
  Workload workload(pair, 0, options, load);
  pair.network().outage = Outage::make(random, pair.now(), 10 * kMillisecond);
  const bool has_ended = pair.run(
      [&] {
        workload.step();
        return workload.done() || pair[0].sends().first_failure() != Status::success;
      },
      kNever / 2);
  Violations all = pair.violations();
  // Time-out 0: for ever (IBA 9.7.6.1.3).
  if (!has_ended && options.timeout != 0) all.push_back(fmt::format("hangs at {}", pair.now()));
  if (pair.overdue() > 0) all.push_back(fmt::format("{} deadlines are past", pair.overdue()));
  // All that is posted at once, again for each retry, after an RNR NAK, and a probe.
  const std::uint64_t sent_max = (options.retry_count + 3u) * kRequests * (kPacketsMax + 1);
  const std::uint64_t sent = pair.network().counters().in_outage;
  if (sent > sent_max) all.push_back(fmt::format("{} packets in the outage", sent));
  return all;
}

TEST(Outages, OfConnectedServices) {
  constexpr std::uint64_t kSeeds = 4000;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Violations violations = run_once(seed);
    ASSERT_TRUE(violations.empty()) << "seed " << seed << ": " << violations.front();
  }
}

/// IBA 9.7.6.1.3: each time-out lasts four times as long as asked for, at most. The peer has
/// answered before, so that the requester knows its round trip.
TEST(Outages, RetriesAreExhaustedInTimeWhateverTheTimeout) {
  for (std::uint8_t timeout = 1; timeout < 32; ++timeout) {
    for (std::uint8_t retry_count = 0; retry_count < 8; ++retry_count) {
      Pair pair({.timeout = timeout, .retry_count = retry_count}, {.delay_ns = kMicrosecond}, 1);
      SCOPED_TRACE(fmt::format("time-out {}, {} retries", timeout, retry_count));
      Status last{};
      pair[0].on_completed = [&](transport::Slot, Status status) { last = status; };
      const auto write = [&pair] {
        pair[0].post({.operation = Operation::write,
                      .length = 8,
                      .remote_address = Node::remote_address(0),
                      .remote_key = pair[1].key()},
                     {0, 8});
      };
      write();
      ASSERT_TRUE(pair.run_until_complete());
      pair.network().drop = [](int, ByteSpan) { return true; };
      const TimeNs begin = pair.now();
      const std::uint64_t sent = pair[0].packets_sent();
      write();
      ASSERT_TRUE(pair.run_until_complete(kNever / 2));
      EXPECT_EQ(last, Status::retry_exceeded);
      EXPECT_LE(pair.now() - begin, (retry_count + 1u) * 4 * (TimeNs{4096} << timeout));
      EXPECT_LE(pair[0].packets_sent() - sent, retry_count + 2u);  // With one probe.
      EXPECT_EQ(pair.overdue(), 0u);
    }
  }
}

}  // namespace
}  // namespace verbatim::sim
