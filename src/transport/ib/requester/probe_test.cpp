#include <gtest/gtest.h>

#include "transport/ib/requester/requester_test_util.h"

/// What is sent again long before the ACK time-out.
namespace verbatim::transport {
namespace {

using wire::NakCode;
using wire::Position;
using Psns = std::vector<std::uint32_t>;

/// A round trip has been measured.
struct Probe : testing::Test {
  explicit Probe(RequesterConfig config = {.timeout = 14, .retry_count = 0}) : bench(config) {
    bench.post(Operation::send, 10);
    bench.transmit();
    bench.now += 20 * kMicrosecond;
    bench.ack(0);
    bench.ended();
  }
  TimeNs ack_timeout() const { return bench.now + (TimeNs{4096} << 14); }
  RequesterBench bench;
};

TEST_F(Probe, IsTheLastPacketOnceBeforeTheTimeout) {
  for (int i = 0; i < 3; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  bench.now += 20 * kMicrosecond;
  bench.ack(1);
  // Packets 2 and 3 were lost, and no later packet shows it.
  const TimeNs timeout = ack_timeout();
  EXPECT_EQ(bench.requester.deadline(), bench.now + RoundTrip::kProbeMin);
  bench.expire();
  EXPECT_EQ(bench.transmit_psns(), (Psns{3}));
  EXPECT_EQ(bench.requester.deadline(), timeout);
  EXPECT_EQ(bench.requester.window_bytes(), SendWindow::kStartBytes);
  bench.nak(2, NakCode::psn_sequence_error);
  EXPECT_TRUE(bench.requester.failed());  // It has no retries.
}

TEST_F(Probe, ThatIsAnsweredRepeatsNothing) {
  for (int i = 0; i < 3; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  bench.expire();
  bench.transmit();
  bench.ack(3);  // Only the acknowledgement was lost.
  EXPECT_TRUE(bench.transmit_psns().empty());
  EXPECT_EQ(bench.requester.deadline(), kNever);
  EXPECT_EQ(bench.ended().size(), 3);
}

TEST_F(Probe, IsNotSentWhileAnswersCome) {
  for (int i = 0; i < 20; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  for (std::uint32_t psn = 1; psn < 20; ++psn) {
    bench.now += RoundTrip::kProbeMin - 1;
    RequesterEffects effects;
    bench.requester.on_timeout(bench.now, effects);
    EXPECT_TRUE(bench.transmit().empty());
    bench.ack(psn);
  }
}

TEST_F(Probe, IsNotSentWhileAReadOrAtomicIsUnanswered) {
  for (const Operation unanswered : {Operation::read, Operation::fetch_and_add}) {
    const auto psn = bench.requester.next_psn().value();
    bench.post(unanswered, 8);
    bench.post(Operation::send, 10);
    bench.transmit();
    EXPECT_EQ(bench.requester.deadline(), ack_timeout());
    if (unanswered == Operation::read) bench.read_response(psn, Position::only, 8);
    if (unanswered != Operation::read) bench.atomic_response(psn, 0);
    EXPECT_EQ(bench.requester.deadline(), bench.now + RoundTrip::kProbeMin);
    bench.ack(psn + 1);
  }
}

struct ProbesAreOff : Probe {
  ProbesAreOff() : Probe({.timeout = 14, .probes = false}) {}
};
TEST_F(ProbesAreOff, NothingIsSentBeforeTheTimeout) {
  bench.post(Operation::send, 10);
  bench.transmit();
  EXPECT_EQ(bench.requester.deadline(), ack_timeout());
}

TEST(Retransmit, NothingIsSentBeforeTheTimeoutWithoutARoundTrip) {
  RequesterBench bench({.timeout = 14});
  bench.post(Operation::write, 600);
  bench.transmit();
  EXPECT_EQ(bench.requester.deadline(), bench.now + (TimeNs{4096} << 14));
}

}  // namespace
}  // namespace verbatim::transport
