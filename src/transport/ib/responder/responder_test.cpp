#include "transport/ib/responder/responder.h"

#include <gtest/gtest.h>

#include "transport/ib/responder/responder_test_util.h"

/// RC: SEND and WRITE, PSNs, acknowledgements and RNR. READs and atomics: responder_read_test.cpp,
/// refusals: responder_nak_test.cpp, UC: responder_uc_test.cpp.
namespace verbatim::transport::bench {
namespace {

using enum Position;

class RcResponder : public AtEveryWrap {};
INSTANTIATE_TEST_SUITE_P(Starts, RcResponder, testing::ValuesIn(kStarts));

TEST_P(RcResponder, SendOfOnePacketIsPlacedAndCompleted) {
  Bench rc(start());
  rc.post();
  EXPECT_EQ(rc.in(send(only, 0, 100).ack()), "place #0 +0 100, complete #0 success 100");
  EXPECT_EQ(rc.out(), "ack 0 msn 1");
}

TEST_P(RcResponder, EmptySendCompletesWithNoBytes) {
  Bench rc(start());
  rc.post(0);
  EXPECT_EQ(rc.in(send(only, 0, 0).ack()), "complete #0 success 0");
  EXPECT_EQ(rc.out(), "ack 0 msn 1");
}

TEST_P(RcResponder, SendOfManyPacketsFillsOneReceive) {
  Bench rc(start());
  rc.post();
  rc.post();
  EXPECT_EQ(rc.in(send(first, 0, 256)), "place #0 +0 256");
  EXPECT_EQ(rc.in(send(middle, 1, 256)), "place #0 +256 256");
  EXPECT_EQ(rc.in(send(middle, 2, 256)), "place #0 +512 256");
  EXPECT_EQ(rc.in(send(last, 3, 1).ack()), "place #0 +768 1, complete #0 success 769");
  EXPECT_EQ(rc.out(), "ack 3 msn 1");
  EXPECT_EQ(rc.in(send(only, 4, 8).ack()), "place #1 +0 8, complete #1 success 8");
  EXPECT_EQ(rc.out(), "ack 4 msn 2");
}

TEST_P(RcResponder, SendFillsItsReceiveToTheLastByte) {
  Bench rc(start());
  rc.post(300);
  rc.in(send(first, 0, 256));
  EXPECT_EQ(rc.in(send(last, 1, 44)), "place #0 +256 44, complete #0 success 300");
}

TEST_P(RcResponder, ImmediateAndSolicitedEventReachTheCompletion) {
  Bench rc(start());
  rc.post();
  rc.post();
  EXPECT_EQ(rc.in(send(only, 0, 4).immediate(7).solicited()),
            "place #0 +0 4, complete #0 success 4 immediate 7 solicited");
  rc.in(send(first, 1, 256));
  EXPECT_EQ(rc.in(send(last, 2, 4).immediate(9)),
            "place #1 +256 4, complete #1 success 260 immediate 9");
}

TEST_P(RcResponder, WriteIsPlacedWithoutAReceive) {
  Bench rc(start());
  EXPECT_EQ(rc.in(write(first, 0, 256, 600).at(16)), "write +16 256");
  EXPECT_EQ(rc.in(write(middle, 1, 256)), "write +272 256");
  EXPECT_EQ(rc.in(write(last, 2, 88).ack()), "write +528 88");
  EXPECT_EQ(rc.out(), "ack 2 msn 1");
}

TEST_P(RcResponder, WriteWithImmediateTakesAReceiveAtItsLastPacket) {
  Bench rc(start());
  EXPECT_EQ(rc.in(write(first, 0, 256, 300)), "write +0 256");
  rc.post(0);
  EXPECT_EQ(rc.in(write(last, 1, 44).immediate(5).solicited()),
            "write +256 44, complete #0 success 300 write immediate 5 solicited");
  rc.post(0);
  EXPECT_EQ(rc.in(write(only, 2, 0).immediate(6)), "complete #1 success 0 write immediate 6");
}

TEST_P(RcResponder, C9_88_EmptyWriteNeedsNoKey) {
  Bench rc(start());
  EXPECT_EQ(rc.in(write(only, 0, 0).key(MemoryKey{0}).ack()), "");
  EXPECT_EQ(rc.out(), "ack 0 msn 1");
}

TEST_P(RcResponder, FirstPacketSaysEstablishedOnce) {
  Bench rc(start());
  rc.in(write(only, 0, 8));
  EXPECT_EQ(rc.established, 1);
  rc.in(write(only, 1, 8));
  EXPECT_EQ(rc.established, 1);
}

TEST_P(RcResponder, AnswersOnlyWhereAskedAndOnceForMany) {
  Bench rc(start());
  for (int psn = 0; psn < 3; ++psn) rc.in(write(only, psn, 8));
  EXPECT_EQ(rc.out(), "");
  rc.in(write(only, 3, 8).ack());
  rc.in(write(only, 4, 8));
  rc.in(write(only, 5, 8).ack());
  rc.in(write(only, 6, 8));
  EXPECT_EQ(rc.out(), "ack 6 msn 7");
  EXPECT_EQ(rc.out(), "");
}

TEST_P(RcResponder, MsnCountsMessagesNotPackets) {
  Bench rc(start());
  rc.in(write(first, 0, 256, 512).ack());
  EXPECT_EQ(rc.out(), "ack 0 msn 0");
  rc.in(write(last, 1, 256).ack());
  EXPECT_EQ(rc.out(), "ack 1 msn 1");
}

TEST_P(RcResponder, GapIsNakedOnceUntilFilled) {
  Bench rc(start());
  rc.in(write(only, 0, 8));
  EXPECT_EQ(rc.in(write(only, 2, 8).ack()), "");
  EXPECT_EQ(rc.out(), "nak-sequence 1");
  EXPECT_EQ(rc.in(write(only, 3, 8).ack()), "");
  EXPECT_EQ(rc.out(), "");
  EXPECT_EQ(rc.in(write(only, 1, 8)), "write +0 8");
  EXPECT_EQ(rc.in(write(only, 3, 8)), "");
  EXPECT_EQ(rc.out(), "nak-sequence 2");
  EXPECT_EQ(rc.responder.counters().naks, 2u);
  EXPECT_EQ(rc.responder.counters().out_of_sequence, 3u);
}

TEST_P(RcResponder, NakIsNotSentWhenTheMissingPacketComesFirst) {
  Bench rc(start());
  rc.in(write(only, 1, 8));
  rc.in(write(only, 0, 8));
  EXPECT_EQ(rc.out(), "ack 0 msn 1");
}

TEST_P(RcResponder, NakCoversTheAcknowledgementThatWaits) {
  Bench rc(start());
  rc.in(write(only, 0, 8).ack());
  rc.in(write(only, 2, 8));
  rc.in(write(only, 0, 8).ack());
  EXPECT_EQ(rc.out(), "nak-sequence 1");
}

TEST_P(RcResponder, C9_105_DuplicateIsAcknowledgedNotExecuted) {
  Bench rc(start());
  rc.post();
  rc.post();
  rc.in(send(only, 0, 8));
  rc.in(write(only, 1, 8));
  EXPECT_EQ(rc.out(), "");
  EXPECT_EQ(rc.in(send(only, 0, 8)), "");
  EXPECT_EQ(rc.out(), "ack 1 msn 2");
  EXPECT_EQ(rc.in(write(only, 1, 8).ack()), "");
  EXPECT_EQ(rc.in(send(only, 0, 8).ack()), "");
  EXPECT_EQ(rc.out(), "ack 1 msn 2");
  EXPECT_EQ(rc.receives_left(), 1u);
  EXPECT_EQ(rc.responder.counters().duplicates, 3u);
}

TEST_P(RcResponder, DuplicateWithinAMessageLeavesItAlone) {
  Bench rc(start());
  rc.post();
  rc.in(send(first, 0, 256));
  rc.in(send(middle, 1, 256));
  EXPECT_EQ(rc.in(send(first, 0, 256)), "");
  EXPECT_EQ(rc.in(send(last, 2, 8)), "place #0 +512 8, complete #0 success 520");
}

TEST_P(RcResponder, NoReceiveIsAnRnrNakAndThePacketIsWantedAgain) {
  Bench rc(start());
  EXPECT_EQ(rc.in(send(only, 0, 8).ack()), "");
  EXPECT_EQ(rc.expected(), 0);
  EXPECT_EQ(rc.out(), "rnr 0 timer 12");
  EXPECT_EQ(rc.in(send(only, 1, 8).ack()), "") << "dropped silently until the retry";
  EXPECT_EQ(rc.out(), "");
  EXPECT_EQ(rc.in(send(only, 0, 8).ack()), "");
  EXPECT_EQ(rc.out(), "rnr 0 timer 12") << "each retry that finds nothing is told again";
  rc.post();
  rc.post();
  EXPECT_EQ(rc.in(send(only, 0, 8).ack()), "place #0 +0 8, complete #0 success 8");
  EXPECT_EQ(rc.in(send(only, 1, 8).ack()), "place #1 +0 8, complete #1 success 8");
  EXPECT_EQ(rc.out(), "ack 1 msn 2");
  EXPECT_EQ(rc.responder.counters().rnr_naks, 2u);
}

TEST_P(RcResponder, GapAfterTheRnrRetryIsNakedAgain) {
  Bench rc(start());
  rc.in(send(only, 0, 8));
  rc.out();
  rc.post();
  rc.in(send(only, 0, 8));
  rc.in(send(only, 2, 8));
  EXPECT_EQ(rc.out(), "nak-sequence 1");
}

TEST_P(RcResponder, WriteWithImmediateMeetsRnrAtItsLastPacketOnly) {
  Bench rc(start());
  EXPECT_EQ(rc.in(write(first, 0, 256, 264)), "write +0 256");
  EXPECT_EQ(rc.in(write(last, 1, 8).immediate(1)), "") << "nothing is placed before the retry";
  EXPECT_EQ(rc.out(), "rnr 1 timer 12");
  rc.post();
  EXPECT_EQ(rc.in(write(last, 1, 8).immediate(1).ack()),
            "write +256 8, complete #0 success 264 write immediate 1");
  EXPECT_EQ(rc.out(), "ack 1 msn 1");
}

TEST_P(RcResponder, ChangedRnrTimerIsTheOneSent) {
  Bench rc(start());
  rc.responder.change(kEveryRight, 31);
  rc.in(send(only, 0, 8));
  EXPECT_EQ(rc.out(), "rnr 0 timer 31");
}

TEST_P(RcResponder, CurrentReceiveIsHandedOutForFlushing) {
  Bench rc(start());
  rc.post();
  EXPECT_FALSE(rc.responder.take_current_receive());
  rc.in(send(first, 0, 256));
  const auto current = rc.responder.take_current_receive();
  ASSERT_TRUE(current);
  EXPECT_EQ(current->ticket, 0u);
  EXPECT_FALSE(rc.responder.take_current_receive());
}

TEST_P(RcResponder, ConfigureForgetsEverything) {
  Bench rc(start());
  rc.post();
  rc.in(send(first, 0, 256).ack());
  rc.in(read(1, 256));
  rc.responder.configure(rc.responder.config());
  EXPECT_FALSE(rc.responder.has_output());
  EXPECT_FALSE(rc.responder.take_current_receive());
  EXPECT_EQ(rc.in(write(only, 0, 8).ack()), "write +0 8");
  EXPECT_EQ(rc.out(), "ack 0 msn 1");
}

TEST(RcResponderPsn, WindowBehindAndAheadMeetAtHalfTheCircle) {
  Bench rc;
  rc.in(write(only, 0x7fffff, 8));
  EXPECT_EQ(rc.responder.counters().out_of_sequence, 1u);
  rc.in(write(only, 0x800000, 8));
  EXPECT_EQ(rc.responder.counters().duplicates, 1u);
}

}  // namespace
}  // namespace verbatim::transport::bench
