#include <gtest/gtest.h>

#include "transport/ib/responder/responder.h"
#include "transport/ib/responder/responder_test_util.h"

/// RC: READs and atomics, their order among acknowledgements, and their repetition.
namespace verbatim::transport::bench {
namespace {

using enum Position;

class RcResponderRead : public AtEveryWrap {};
INSTANTIATE_TEST_SUITE_P(Starts, RcResponderRead, testing::ValuesIn(kStarts));

TEST_P(RcResponderRead, ResponseIsAsManyPacketsAsTheLengthNeeds) {
  Bench rc(start());
  EXPECT_EQ(rc.in(read(0, 700)), "");
  EXPECT_EQ(rc.expected(), 3);
  EXPECT_EQ(rc.out(), "first 0 +0 256, middle 1 +256 256, last 2 +512 188");
  rc.in(read(3, 256, 8));
  EXPECT_EQ(rc.out(), "only 3 +8 256");
  rc.in(read(4, 257));
  EXPECT_EQ(rc.out(), "first 4 +0 256, last 5 +256 1");
}

TEST_P(RcResponderRead, C9_88_EmptyReadNeedsNoKeyAndTakesOnePsn) {
  Bench rc(start());
  rc.in(read(0, 0).key(MemoryKey{0}));
  EXPECT_EQ(rc.out(), "only 0 empty");
  EXPECT_EQ(rc.expected(), 1);
}

TEST_P(RcResponderRead, ResponsesCarryTheMsnOfTheirRequest) {
  Bench rc(start());
  rc.in(read(0, 8));
  rc.in(write(only, 1, 8));
  OutgoingPacket response;
  ASSERT_TRUE(rc.responder.poll_transmit(response));
  EXPECT_EQ(response.headers.aeth.msn, wire::Msn(1));
  EXPECT_EQ(rc.responder.msn(), wire::Msn(2));
}

TEST_P(RcResponderRead, PayloadIsNamedByKeyAndAddress) {
  Bench rc(start());
  rc.in(read(0, 300, 100));
  OutgoingPacket response;
  ASSERT_TRUE(rc.responder.poll_transmit(response));
  ASSERT_TRUE(rc.responder.poll_transmit(response));
  EXPECT_EQ(response.payload.from, PayloadSource::From::region);
  EXPECT_EQ(response.payload.key, rc.key);
  EXPECT_EQ(response.payload.address, kRegionStart + 356);
  EXPECT_EQ(response.payload.length, 44u);
}

TEST_P(RcResponderRead, AnswersLeaveInTheOrderOfTheRequests) {
  Bench rc(start());
  rc.in(write(only, 0, 8).ack());
  rc.in(read(1, 512));
  rc.in(fetch_add(3, 1));
  rc.in(write(only, 4, 8).ack());
  // The first acknowledgement is not sent: the READ's response covers it.
  EXPECT_EQ(rc.out(), "first 1 +0 256, last 2 +256 256, atomic 3 = 0, ack 4 msn 4");
}

TEST_P(RcResponderRead, AcknowledgementBetweenTwoReadsLeavesBetweenThem) {
  Bench rc(start());
  rc.in(read(0, 8));
  rc.in(write(only, 1, 8).ack());
  rc.in(read(2, 8));
  EXPECT_EQ(rc.out(), "only 0 +0 8, ack 1 msn 2, only 2 +0 8");
}

TEST_P(RcResponderRead, PacketsComeBetweenThePacketsOfAResponse) {
  Bench rc(start());
  rc.in(read(0, 512));
  EXPECT_EQ(rc.next(), "first 0 +0 256");
  rc.in(write(only, 2, 8).ack());
  rc.in(write(only, 4, 8).ack());
  EXPECT_EQ(rc.out(), "last 1 +256 256, nak-sequence 3");
}

TEST_P(RcResponderRead, DuplicateReadIsExecutedAgain) {
  Bench rc(start());
  rc.in(read(0, 600));
  rc.out();
  EXPECT_EQ(rc.in(read(0, 600)), "");
  EXPECT_EQ(rc.out(), "first 0 +0 256, middle 1 +256 256, last 2 +512 88");
  EXPECT_EQ(rc.expected(), 3);
}

TEST_P(RcResponderRead, LaterPartOfAReadIsRepeatedFromItsPsn) {
  Bench rc(start());
  rc.in(read(0, 1000));
  rc.out();
  rc.in(read(2, 1000 - 512, 512));
  EXPECT_EQ(rc.out(), "first 2 +512 256, last 3 +768 232");
  rc.in(read(3, 1000 - 768, 768));
  EXPECT_EQ(rc.out(), "only 3 +768 232");
  rc.in(read(1, 256, 256));
  EXPECT_EQ(rc.out(), "only 1 +256 256") << "and a part that ends early";
}

TEST_P(RcResponderRead, RepetitionMustAskForTheSameBytes) {
  Bench rc(start());
  const MemoryKey other = rc.add_region(kEveryRight, kPd);
  rc.in(read(0, 1000));
  rc.out();
  rc.in(read(2, 488, 513));
  rc.in(read(2, 489, 512));
  rc.in(read(0, 1000).key(other));
  rc.in(read(0, 1000).key(MemoryKey{1}));
  EXPECT_EQ(rc.out(), "");
  EXPECT_FALSE(rc.responder.failed());
}

TEST_P(RcResponderRead, RepetitionStartsAResponseUnderWayAgain) {
  Bench rc(start());
  rc.in(read(0, 768));
  EXPECT_EQ(rc.next(), "first 0 +0 256");
  EXPECT_EQ(rc.next(), "middle 1 +256 256");
  rc.in(read(1, 512, 256));
  EXPECT_EQ(rc.out(), "first 1 +256 256, last 2 +512 256");
}

TEST_P(RcResponderRead, RepetitionOfAReadThatWaitsIsAnsweredOnce) {
  Bench rc(start());
  rc.in(read(0, 256));
  rc.in(read(0, 256));
  rc.in(read(0, 256));
  EXPECT_EQ(rc.out(), "only 0 +0 256");
}

TEST_P(RcResponderRead, DuplicateWriteBeforeALostReadIsNotAcknowledgedPastIt) {
  Bench rc(start());
  rc.in(write(only, 0, 8).ack());
  rc.in(read(1, 512));
  rc.in(write(only, 3, 8).ack());
  rc.out();  // All are lost: the requester goes back to the first.
  rc.in(write(only, 0, 8).ack());
  EXPECT_EQ(rc.out(), "ack 0 msn 1");
  rc.in(read(1, 512));
  rc.in(write(only, 3, 8).ack());
  EXPECT_EQ(rc.out(), "first 1 +0 256, last 2 +256 256, ack 3 msn 3");
}

TEST_P(RcResponderRead, GoingBackInOneBurstIsAnsweredInOrder) {
  Bench rc(start());
  rc.in(write(only, 0, 8).ack());
  rc.in(read(1, 8));
  rc.in(fetch_add(2, 5));
  rc.in(write(only, 3, 8).ack());
  rc.out();
  rc.in(write(only, 0, 8).ack());
  rc.in(read(1, 8));
  rc.in(fetch_add(2, 5));
  rc.in(write(only, 3, 8).ack());
  EXPECT_EQ(rc.out(), "only 1 +0 8, atomic 2 = 0, ack 3 msn 4");
}

TEST_P(RcResponderRead, AtomicsReturnTheValueBefore) {
  Bench rc(start());
  rc.word = 40;
  EXPECT_EQ(rc.in(fetch_add(0, 2)), "fetch-add");
  EXPECT_EQ(rc.out(), "atomic 0 = 40");
  EXPECT_EQ(rc.in(compare_swap(1, 42, 7)), "compare-swap");
  EXPECT_EQ(rc.in(compare_swap(2, 42, 8)), "compare-swap");
  EXPECT_EQ(rc.out(), "atomic 1 = 42, atomic 2 = 7");
  EXPECT_EQ(rc.word, 7u);
}

TEST_P(RcResponderRead, RepeatedAtomicReturnsTheFirstResult) {
  Bench rc(start());
  rc.word = 1;
  rc.in(fetch_add(0, 1));
  rc.in(compare_swap(1, 2, 9));
  rc.out();
  EXPECT_EQ(rc.in(fetch_add(0, 1)), "");
  EXPECT_EQ(rc.in(compare_swap(1, 2, 9)), "");
  EXPECT_EQ(rc.in(fetch_add(0, 1)), "") << "twice in the queue is once";
  EXPECT_EQ(rc.out(), "atomic 0 = 1, atomic 1 = 2");
  EXPECT_EQ(rc.executed_atomics, 2);
  EXPECT_EQ(rc.word, 9u);
}

TEST_P(RcResponderRead, AtomicOlderThanWhatIsRememberedGetsNoAnswerAndIsNotExecuted) {
  Bench rc(start(), Service::rc, 2);
  for (int psn = 0; psn < 3; ++psn) {
    rc.in(fetch_add(psn, 1));
    rc.out();
  }
  EXPECT_EQ(rc.in(fetch_add(0, 1)), "");
  EXPECT_EQ(rc.out(), "");
  EXPECT_EQ(rc.in(fetch_add(1, 1)), "");
  EXPECT_EQ(rc.out(), "atomic 1 = 1");
  EXPECT_EQ(rc.executed_atomics, 3);
}

TEST_P(RcResponderRead, RepetitionOfAnotherOperationGetsNoAnswer) {
  Bench rc(start());
  rc.in(fetch_add(0, 1));
  rc.in(read(1, 8));
  rc.out();
  rc.in(compare_swap(0, 1, 1));
  rc.in(read(0, 8));
  rc.in(fetch_add(1, 1));
  EXPECT_EQ(rc.out(), "");
}

TEST_P(RcResponderRead, NewRequestDropsTheRepetitionOfTheOldest) {
  Bench rc(start(), Service::rc, 2);
  rc.in(fetch_add(0, 1));
  rc.in(fetch_add(1, 1));
  rc.out();
  rc.in(fetch_add(1, 1));
  rc.in(fetch_add(0, 1));
  rc.in(fetch_add(2, 1));
  EXPECT_EQ(rc.out(), "atomic 1 = 1, atomic 2 = 2");
}

TEST_P(RcResponderRead, ManyReadsThroughASmallMemory) {
  Bench rc(start(), Service::rc, 3);
  int psn = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(rc.in(read(psn + i, 8)), "");
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(rc.next(), fmt::format("only {} +0 8", psn + i));
    psn += 3;
  }
  EXPECT_EQ(rc.out(), "");
}

TEST_P(RcResponderRead, TooManyOutstandingAreAnInvalidRequest) {
  Bench rc(start(), Service::rc, 2);
  rc.in(read(0, 512));
  rc.in(fetch_add(2, 1));
  EXPECT_EQ(rc.in(read(3, 8)), "fail request");
  EXPECT_EQ(rc.out(), "first 0 +0 256, last 1 +256 256, atomic 2 = 0, nak-request 3");
}

TEST_P(RcResponderRead, ResponseUnderWayCountsAsOutstanding) {
  Bench rc(start(), Service::rc, 1);
  rc.in(read(0, 512));
  EXPECT_EQ(rc.next(), "first 0 +0 256");
  EXPECT_EQ(rc.in(read(2, 8)), "fail request");
}

TEST_P(RcResponderRead, MemoryThatGoesDuringAResponseIsAnAccessError) {
  Bench rc(start());
  rc.in(write(only, 0, 8).ack());
  rc.in(read(1, 600));
  rc.in(fetch_add(4, 1));
  EXPECT_EQ(rc.next(), "ack 0 msn 1");
  EXPECT_EQ(rc.next(), "first 1 +0 256");
  EXPECT_EQ(rc.next(), "middle 2 +256 256");
  EXPECT_EQ(rc.read_error(), "fail access");
  EXPECT_EQ(rc.out(), "nak-access 2");
  EXPECT_TRUE(rc.responder.failed());
  EXPECT_EQ(rc.in(write(only, 5, 8)), "");
}

TEST_P(RcResponderRead, MemoryThatGoesAfterAnotherFailureOnlyChangesTheNak) {
  Bench rc(start());
  rc.in(read(0, 512));
  EXPECT_EQ(rc.in(write(only, 2, 9, 8)), "fail request");
  EXPECT_EQ(rc.next(), "first 0 +0 256");
  EXPECT_EQ(rc.read_error(), "");
  EXPECT_EQ(rc.out(), "nak-access 0");
}

TEST_P(RcResponderRead, NakThatIsOutOfDateBehindAResponseBecomesAnAcknowledgement) {
  Bench rc(start());
  rc.in(read(0, 8));
  rc.in(write(only, 2, 8));
  rc.in(write(only, 1, 8));
  EXPECT_EQ(rc.out(), "only 0 +0 8, ack 1 msn 2");
  rc.in(read(2, 8));
  rc.in(write(only, 4, 8));
  rc.in(read(3, 8));
  EXPECT_EQ(rc.out(), "only 2 +0 8, ack 2 msn 3, only 3 +0 8");
}

TEST_P(RcResponderRead, MemoryThatGoesAtTheLastPacketIsAnAccessErrorToo) {
  Bench rc(start());
  rc.in(read(0, 8));
  EXPECT_EQ(rc.next(), "only 0 +0 8");
  EXPECT_EQ(rc.read_error(), "fail access");
  EXPECT_EQ(rc.out(), "nak-access 0");
}

TEST_P(RcResponderRead, MemoryThatGoesDuringARepetitionIsSilent) {
  Bench rc(start());
  rc.in(read(0, 512));
  rc.in(fetch_add(2, 1));
  rc.out();
  rc.in(read(0, 512));
  rc.in(fetch_add(2, 1));
  EXPECT_EQ(rc.next(), "first 0 +0 256");
  EXPECT_EQ(rc.read_error(), "");
  EXPECT_EQ(rc.out(), "atomic 2 = 0");
  EXPECT_FALSE(rc.responder.failed());
}

TEST_P(RcResponderRead, RepetitionAfterTheRegionHasGoneIsSilent) {
  Bench rc(start());
  rc.in(read(0, 512));
  rc.out();
  rc.remove_region(rc.key);
  EXPECT_EQ(rc.in(read(0, 512)), "");
  EXPECT_EQ(rc.out(), "");
  EXPECT_FALSE(rc.responder.failed());
}

TEST(RcResponderReadDepth, TheMostThatCanBeRemembered) {
  Bench rc(Psn(0xffffc0), Service::rc, ResponseQueue::kDepthMax);
  for (int psn = 0; psn < 128; ++psn) rc.in(fetch_add(psn, 1));
  rc.out();
  for (int psn = 0; psn < 128; ++psn) {
    rc.in(fetch_add(psn, 1));
    EXPECT_EQ(rc.out(), fmt::format("atomic {} = {}", psn, psn));
  }
  EXPECT_EQ(rc.in(fetch_add(128, 1)), "fetch-add");
}

TEST_P(RcResponderRead, AcknowledgementLeavesBeforeTheReadThatCameAfterIt) {
  Bench rc(start());
  rc.in(write(only, 0, 8).ack());
  rc.in(read(1, 8));
  EXPECT_EQ(rc.out(), "ack 0 msn 1, only 1 +0 8");
}

TEST(ResponseQueueTest, OldRequestsDoNotBoundAcknowledgementsHalfTheCircleLater) {
  ResponseQueue responses;
  responses.reset(4, Mtu::k256, wire::Service::rc);
  responses.add_read(Psn(10), wire::Msn(1), {.length = 8}, kPd);
  using Reach = ResponseQueue::Reach;
  EXPECT_EQ(responses.reach_between(Psn(8), Psn(12)), (Reach{Psn(9), wire::Msn(0)}));
  EXPECT_EQ(responses.reach_between(Psn(10), Psn(12)), std::nullopt);
  EXPECT_EQ(responses.reach_between(Psn(8), Psn(10)), std::nullopt);
  EXPECT_EQ(responses.reach_between(Psn(0x900000), Psn(0x900001)), std::nullopt);
  EXPECT_EQ(responses.reach_between(Psn(0x7fffff), Psn(0x800020)), std::nullopt);
}

TEST(ResponseQueueTest, ReadOfTheLongestMessageTakesHalfTheCircleOfPsns) {
  ResponseQueue responses;
  responses.reset(1, Mtu::k256, wire::Service::rc);
  EXPECT_EQ(responses.packets_of(kMessageBytesMax), 0x800000u);
  responses.add_read(Psn(0xffffff), wire::Msn(1), {.length = kMessageBytesMax}, kPd);
  EXPECT_TRUE(responses.repeat_read(Psn(0x7ffffe), {.address = 0x7fffff00, .length = 256}));
  EXPECT_EQ(responses.next_psn(), Psn(0x7ffffe));
}

}  // namespace
}  // namespace verbatim::transport::bench
