#include <gtest/gtest.h>

#include "sim/pair.h"

/// The requester's window against a receiver with Linux's default socket buffer.
namespace verbatim::sim {
namespace {

using transport::Operation;
using transport::Slot;
using transport::Status;

constexpr std::size_t kMessageBytes = 65536;
constexpr double kByteNs = 0.25;  // 4 GB/s.

struct Outcome {
  TimeNs takes = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t overrun = 0;
};

/// Transfers `messages` of 64 KiB from node 0 (READs: to it), with 32 outstanding.
Outcome transfer(Operation operation, int messages, const Faults& faults,
                 std::uint32_t window_bytes_max = 1 << 20) {
  PairOptions options{.path_mtu = Mtu::k4096, .depth = 32, .memory_bytes = kMessageBytes};
  options.window_bytes_max = window_bytes_max;
  Pair pair(options, faults, 1);
  const TimeNs begin = pair.now();
  int posted = 0;
  EXPECT_TRUE(pair.run([&] {
    for (; posted < messages && !pair[0].requester().full(); ++posted) {
      pair[0].post({.operation = operation,
                    .length = kMessageBytes,
                    .remote_address = Node::remote_address(0),
                    .remote_key = pair[1].key()},
                   {0, kMessageBytes});
    }
    return posted == messages && pair[0].requester().outstanding() == 0;
  }));
  EXPECT_EQ(pair.finish(), Violations{});
  EXPECT_EQ(pair[0].sends().first_failure(), Status::success);
  return {pair.now() - begin, pair[0].requester().retransmissions(),
          pair.network().counters().overrun};
}

TimeNs ideal(int messages) {
  const double packets = messages * (kMessageBytes / 4096.0);
  return static_cast<TimeNs>(packets * (4096 + 28 + 768) * kByteNs);
}

class DefaultSocketBuffer : public testing::TestWithParam<Operation> {};
INSTANTIATE_TEST_SUITE_P(Operations, DefaultSocketBuffer,
                         testing::Values(Operation::write, Operation::read));

TEST_P(DefaultSocketBuffer, IsKeptBusyWithFewLosses) {
  constexpr int kMessages = 2000;
  const Outcome outcome =
      transfer(GetParam(), kMessages, {.delay_ns = 10 * kMicrosecond, .receive_byte_ns = kByteNs});
  // Within 10 % of the receiver's speed, although the window probes for more.
  EXPECT_LT(outcome.takes, ideal(kMessages) * 11 / 10);
  EXPECT_LT(outcome.retransmissions, kMessages * 16 / 50u);
}

TEST(SmallSocketBuffer, StillMakesSteadyProgress) {
  constexpr int kMessages = 200;
  const Outcome outcome = transfer(
      Operation::write, kMessages,
      {.delay_ns = 10 * kMicrosecond, .receive_byte_ns = kByteNs, .receive_buffer_bytes = 20'000});
  EXPECT_GT(outcome.overrun, 0u);
  // A full buffer per round trip would take four times the ideal time. A tail that is lost again
  // after its probe costs an ACK time-out, once here.
  EXPECT_LT(outcome.takes, ideal(kMessages) * 8 + (TimeNs{4096} << 14));
}

TEST(SocketBufferOfSixteenKibibytes, WindowBoundKeepsItWhole) {
  const Outcome outcome = transfer(
      Operation::write, 200,
      {.delay_ns = 10 * kMicrosecond, .receive_byte_ns = kByteNs, .receive_buffer_bytes = 20'000},
      16'384);
  EXPECT_EQ(outcome.overrun, 0u);
  EXPECT_EQ(outcome.retransmissions, 0u);
}

}  // namespace
}  // namespace verbatim::sim
