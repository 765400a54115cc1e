#include <gtest/gtest.h>

#include "transport/ib/requester/requester_test_util.h"

/// Losses, time-outs, RNR NAKs and failures.
namespace verbatim::transport {
namespace {

using wire::NakCode;
using wire::Position;
using Psns = std::vector<std::uint32_t>;

TEST(Retransmit, SequenceErrorGoesBackToTheMissingPacket) {
  RequesterBench bench;
  for (int i = 0; i < 4; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  bench.nak(1, NakCode::psn_sequence_error);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
  EXPECT_EQ(bench.transmit_psns(), (Psns{1, 2, 3}));
  EXPECT_EQ(bench.requester.retransmissions(), 3);
}

TEST(Retransmit, GoesBackIntoTheMiddleOfAMessage) {
  RequesterBench bench;
  bench.post(Operation::write, 600);
  bench.transmit();
  bench.nak(1, NakCode::psn_sequence_error);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{opcode(0x07), 1, 256, 256, false},
                                                 {opcode(0x08), 2, 88, 512, true}}));
}

TEST(Retransmit, S9_7_6_1_3_AckTimeoutIs4096NsTimes2ToTheTimeout) {
  RequesterBench bench({.timeout = 5});
  bench.post(Operation::send, 10);
  bench.transmit();
  EXPECT_EQ(bench.requester.deadline(), bench.now + (TimeNs{4096} << 5));
  bench.expire();
  EXPECT_EQ(bench.transmit_psns(), (Psns{0}));
}

TEST(Retransmit, DeadlineMovesLaterWithEachAcknowledgement) {
  RequesterBench bench({.timeout = 5});
  for (int i = 0; i < 3; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  for (std::uint32_t psn = 0; psn < 2; ++psn) {
    bench.now += 50 * kMicrosecond;
    bench.ack(psn);
    EXPECT_EQ(bench.requester.deadline(), bench.now + (TimeNs{4096} << 5));
  }
  bench.ack(2);
  EXPECT_EQ(bench.requester.deadline(), kNever);
}

TEST(Retransmit, ALosslessLinkIsNotProbed) {
  RequesterBench bench({.timeout = 14, .lossless = true});
  bench.post(Operation::send, 10);
  bench.transmit();
  EXPECT_EQ(bench.requester.deadline(), bench.now + (TimeNs{4096} << 14));
}

TEST(Retransmit, EarlyTimeoutCallDoesNoHarm) {
  RequesterBench bench({.timeout = 5});
  bench.post(Operation::send, 10);
  bench.transmit();
  bench.now += 10;
  RequesterEffects effects;
  bench.requester.on_timeout(bench.now, effects);
  EXPECT_TRUE(effects.list.empty());
  EXPECT_TRUE(bench.transmit().empty());
}

TEST(Retransmit, S17_2_8_1_AnAlternatePathHasRetriesOfItsOwn) {
  RequesterBench bench({.timeout = 5, .retry_count = 1});
  bench.requester.set_may_migrate(true);
  bench.post(Operation::send, 10);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0}));
  for (const bool migrates : {false, true, false}) {
    bench.expire();
    if (bench.transmit_psns().empty()) break;
    EXPECT_EQ(bench.requester.take_migration(), migrates);
    EXPECT_TRUE(bench.ended().empty());
  }
  EXPECT_FALSE(bench.requester.take_migration());
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::retry_exceeded}}));
}

TEST(Retransmit, RetryCountRepetitionsThenRetryExceeded) {
  RequesterBench bench({.timeout = 5, .retry_count = 2});
  bench.post(Operation::send, 10);
  bench.post(Operation::send, 10);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  for (int i = 0; i < 2; ++i) {
    bench.expire();
    EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  }
  bench.expire();
  EXPECT_TRUE(bench.transmit().empty());
  EXPECT_EQ(bench.failure, Status::retry_exceeded);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::retry_exceeded}}));
  bench.flush();
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{1, Status::flushed}}));
  EXPECT_EQ(bench.requester.deadline(), kNever);
}

TEST(Retransmit, ProgressGivesAllRepetitionsBack) {
  RequesterBench bench({.timeout = 5, .retry_count = 1});
  for (std::uint32_t i = 0; i < 10; ++i) {
    bench.post(Operation::send, 10);
    bench.transmit();
    bench.expire();
    EXPECT_EQ(bench.transmit_psns(), (Psns{i}));
    bench.ack(i);
  }
  EXPECT_FALSE(bench.requester.failed());
}

TEST(Retransmit, SequenceErrorsUseUpTheRetryCountToo) {
  RequesterBench bench({.retry_count = 1});
  bench.post(Operation::send, 10);
  for (int i = 0; i < 2; ++i) {
    bench.transmit();
    bench.nak(0, NakCode::psn_sequence_error);
  }
  EXPECT_EQ(bench.failure, Status::retry_exceeded);
}

TEST(Retransmit, TimeoutZeroIsForEver) {
  RequesterBench bench({.timeout = 0, .retry_count = 0});
  bench.post(Operation::send, 10);
  bench.transmit();
  bench.now += 3600 * kSecond;
  EXPECT_EQ(bench.requester.deadline(), kNever);
  RequesterEffects effects;
  bench.requester.on_timeout(bench.now, effects);
  EXPECT_FALSE(bench.requester.failed());
}

TEST(Retransmit, LateAcknowledgementSparesWhatWasToBeSentAgain) {
  RequesterBench bench({.timeout = 5});
  for (int i = 0; i < 3; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  bench.expire();
  bench.ack(1);
  EXPECT_EQ(bench.transmit_psns(), (Psns{2}));
  bench.ack(2);
  EXPECT_EQ(bench.ended().size(), 3);
}

TEST(Retransmit, S9_7_5_2_8_RnrNakWaitsForItsTimer) {
  RequesterBench bench;
  for (int i = 0; i < 3; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  bench.rnr_nak(1, 12);  // 0.64 ms.
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
  EXPECT_TRUE(bench.transmit().empty());
  EXPECT_EQ(bench.requester.deadline(), bench.now + 640 * kMicrosecond);
  bench.nak(1, NakCode::psn_sequence_error);  // For the packet after it.
  EXPECT_TRUE(bench.transmit().empty());
  bench.expire();
  EXPECT_EQ(bench.transmit_psns(), (Psns{1, 2}));
}

TEST(Retransmit, SecondCopyOfAnRnrNakCountsOnce) {
  RequesterBench bench({.rnr_retry = 1});
  bench.post(Operation::send, 10);
  bench.transmit();
  bench.rnr_nak(0, 1);
  bench.rnr_nak(0, 1);
  EXPECT_FALSE(bench.requester.failed());
}

TEST(Retransmit, RnrRetriesThenRnrRetryExceeded) {
  RequesterBench bench({.rnr_retry = 2});
  bench.post(Operation::send, 10);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(bench.requester.failed());
    EXPECT_EQ(bench.transmit_psns(), (Psns{0}));
    bench.rnr_nak(0, 1);
    if (i < 2) bench.expire();
  }
  EXPECT_EQ(bench.failure, Status::rnr_retry_exceeded);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::rnr_retry_exceeded}}));
}

TEST(Retransmit, RnrRetrySevenIsForEver) {
  RequesterBench bench({.rnr_retry = 7});
  bench.post(Operation::send, 10);
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(bench.transmit_psns(), (Psns{0}));
    bench.rnr_nak(0, 1);
    bench.expire();
  }
  EXPECT_FALSE(bench.requester.failed());
}

struct NakRow {
  NakCode code;
  Status status;
};
class FatalNak : public testing::TestWithParam<NakRow> {};
INSTANTIATE_TEST_SUITE_P(
    Table46, FatalNak,
    testing::Values(NakRow{NakCode::invalid_request, Status::remote_invalid_request},
                    NakRow{NakCode::remote_access_error, Status::remote_access_error},
                    NakRow{NakCode::remote_operational_error, Status::remote_operation_error},
                    NakRow{NakCode::invalid_rd_request, Status::remote_invalid_request}));

TEST_P(FatalNak, FailsItsRequestAndFlushesTheRest) {
  RequesterBench bench;
  for (int i = 0; i < 4; ++i) bench.post(Operation::write, 10);
  bench.transmit();
  bench.nak(2, GetParam().code);
  EXPECT_EQ(
      bench.ended(),
      (std::vector<Ended>{{0, Status::success}, {1, Status::success}, {2, GetParam().status}}));
  EXPECT_EQ(bench.failure, GetParam().status);
  bench.post(Operation::write, 10);  // In the error state requests are accepted and flushed.
  bench.flush();
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{3, Status::flushed}, {4, Status::flushed}}));
  EXPECT_TRUE(bench.transmit().empty());
  EXPECT_EQ(bench.requester.outstanding(), 0);
}

TEST(Retransmit, LocalErrorLetsEarlierRequestsComplete) {
  RequesterBench bench;
  for (int i = 0; i < 4; ++i) bench.post(Operation::send, 10);
  OutgoingPacket packet;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bench.requester.poll_transmit(bench.now, packet));
  bench.local_error(2, Status::local_protection_error);
  EXPECT_TRUE(bench.ended().empty());
  EXPECT_TRUE(bench.transmit().empty());  // Neither it nor any later one.
  bench.ack(0);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
  EXPECT_FALSE(bench.failure.has_value());
  bench.nak(1, NakCode::psn_sequence_error);
  EXPECT_EQ(bench.transmit_psns(), (Psns{1}));
  bench.ack(1);
  EXPECT_EQ(bench.ended(),
            (std::vector<Ended>{{1, Status::success}, {2, Status::local_protection_error}}));
  EXPECT_EQ(bench.failure, Status::local_protection_error);
  bench.flush();
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{3, Status::flushed}}));
}

TEST(Retransmit, FlushCompletesEverythingOnce) {
  RequesterBench bench({}, 200);
  for (int i = 0; i < 200; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  bench.ack(0);
  bench.ended();
  bench.flush();
  const auto ended = bench.ended();
  ASSERT_EQ(ended.size(), 199);
  EXPECT_EQ(ended.front(), (Ended{1, Status::flushed}));
  EXPECT_EQ(ended.back(), (Ended{199, Status::flushed}));
  bench.flush();
  EXPECT_TRUE(bench.ended().empty());
  bench.ack(100);
  EXPECT_TRUE(bench.ended().empty());
}

TEST(SendWindow, HalvesOncePerWindowOfLosses) {
  RequesterBench bench({.timeout = 5, .window_bytes_max = 16 * 768});
  bench.post(Operation::write, 64 * 256);
  bench.transmit();
  bench.nak(2, NakCode::psn_sequence_error);
  EXPECT_EQ(bench.requester.window_bytes(), 8 * 768);
  bench.transmit();
  bench.nak(5, NakCode::psn_sequence_error);  // Lost in the same burst.
  EXPECT_EQ(bench.requester.window_bytes(), 8 * 768);
}

TEST(SendWindow, GrowsOnlyByFullCleanWindowsUpToItsBound) {
  SendWindow window;
  window.start(1000, 140'000);
  const std::uint32_t start = window.bytes();
  window.on_acknowledged(start);
  EXPECT_EQ(window.bytes(), start);  // The window held no packet back.
  window.note_full();
  window.on_acknowledged(start);
  EXPECT_EQ(window.bytes(), start + start / 16);
  for (int i = 0; i < 100; ++i) {
    window.note_full();
    window.on_acknowledged(window.bytes());
  }
  EXPECT_EQ(window.bytes(), 140'000);
}

TEST(SendWindow, GrowsMoreCautiouslyAfterEachLoss) {
  SendWindow window;
  window.start(1000, 1'000'000);
  const auto clean_windows_to_grow = [&window] {
    const std::uint32_t before = window.bytes();
    int count = 0;
    for (; window.bytes() == before; ++count) {
      window.note_full();
      window.on_acknowledged(window.bytes());
    }
    return count;
  };
  EXPECT_EQ(clean_windows_to_grow(), 1);
  for (int i = 0; i < 50; ++i) window.on_loss();
  EXPECT_EQ(window.bytes(), 1000);  // The ceiling is reached: growth is now beyond it.
  EXPECT_EQ(clean_windows_to_grow(), SendWindow::kWindowsPerStepMax);
  EXPECT_LT(clean_windows_to_grow(), SendWindow::kWindowsPerStepMax);
}

TEST(SendWindow, ComesBackFastToWhereALossByChanceFoundIt) {
  SendWindow window;
  window.start(1000, 1'000'000);
  for (int losses = 0; losses < 100; ++losses) {
    const std::uint32_t before = window.bytes();
    window.on_loss();
    EXPECT_EQ(window.bytes(), before / 2);
    for (int i = 0; i < 50; ++i) {
      window.note_full();
      window.on_acknowledged(window.bytes());
    }
    EXPECT_GE(window.bytes(), before * 3 / 4);
  }
  EXPECT_GE(window.bytes(), SendWindow::kStartBytes);
}

TEST(SendWindow, StaysBelowABufferThatOverflows) {
  SendWindow window;
  window.start(1000, 1'000'000);
  constexpr std::uint32_t kRoom = 40'000;
  int losses = 0;
  for (int i = 0; i < 10'000; ++i) {
    window.note_full();
    if (window.bytes() > kRoom) {
      ++losses;
      window.on_loss();
    } else {
      window.on_acknowledged(window.bytes());
    }
  }
  EXPECT_LT(losses, 40);
  EXPECT_GT(window.bytes(), kRoom / 2);
}

TEST(RoundTrip, AnswerThatSeemsToComeBeforeItsQuestionTakesNoTime) {
  RoundTrip round_trip;
  round_trip.start();
  for (Sequence i = 0; i < 100; ++i) {
    round_trip.sent(i, 1000);
    round_trip.answered(i + 1, 999);  // Two threads read the clock.
  }
  EXPECT_EQ(round_trip.probe_after(), RoundTrip::kProbeMin);
}

}  // namespace
}  // namespace verbatim::transport
