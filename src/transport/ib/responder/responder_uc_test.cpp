#include <gtest/gtest.h>

#include "transport/ib/responder/responder.h"
#include "transport/ib/responder/responder_test_util.h"

/// UC: losses are silent, and the stream continues with the next message.
namespace verbatim::transport::bench {
namespace {

using enum Position;

class UcResponder : public AtEveryWrap {
 protected:
  Bench uc{start(), Service::uc};
  void TearDown() override { EXPECT_EQ(uc.out(), "") << "UC says nothing"; }
};
INSTANTIATE_TEST_SUITE_P(Starts, UcResponder, testing::ValuesIn(kStarts));

TEST_P(UcResponder, MessagesArrive) {
  uc.post();
  uc.post();
  EXPECT_EQ(uc.in(send(first, 0, 256)), "place #0 +0 256");
  EXPECT_EQ(uc.in(send(last, 1, 8)), "place #0 +256 8, complete #0 success 264");
  EXPECT_EQ(uc.in(write(first, 2, 256, 512)), "write +0 256");
  EXPECT_EQ(uc.in(write(last, 3, 256).immediate(3).solicited()),
            "write +256 256, complete #1 success 512 write immediate 3 solicited");
  EXPECT_EQ(uc.established, 1);
}

TEST_P(UcResponder, LostMiddleDropsTheMessageAndItsReceiveServesTheNext) {
  uc.post();
  EXPECT_EQ(uc.in(send(first, 0, 256)), "place #0 +0 256");
  EXPECT_EQ(uc.in(send(last, 2, 8)), "");
  EXPECT_EQ(uc.in(send(only, 3, 5)), "place #0 +0 5, complete #0 success 5");
  EXPECT_EQ(uc.responder.counters().dropped_messages, 1u);
}

TEST_P(UcResponder, LostLastIsSeenAtTheNextMessage) {
  uc.post();
  uc.in(send(first, 0, 256));
  EXPECT_EQ(uc.in(send(first, 2, 256)), "place #0 +0 256");
  EXPECT_EQ(uc.in(send(last, 3, 1)), "place #0 +256 1, complete #0 success 257");
}

TEST_P(UcResponder, LostFirstDropsTheRest) {
  uc.post();
  EXPECT_EQ(uc.in(send(middle, 1, 256)), "");
  EXPECT_EQ(uc.in(send(last, 2, 8)), "");
  EXPECT_EQ(uc.in(send(only, 3, 8)), "place #0 +0 8, complete #0 success 8");
}

TEST_P(UcResponder, LostWholeMessagesAreNotMissed) {
  uc.post();
  uc.post();
  uc.in(send(only, 0, 8));
  EXPECT_EQ(uc.in(send(only, 7, 8)), "place #1 +0 8, complete #1 success 8");
  EXPECT_EQ(uc.expected(), 8);
}

TEST_P(UcResponder, PacketOfAnotherMessageInSequenceBreaksTheFirst) {
  uc.post();
  uc.in(send(first, 0, 256));
  EXPECT_EQ(uc.in(write(only, 1, 8)), "write +0 8");
  EXPECT_EQ(uc.in(send(last, 2, 8)), "");
  EXPECT_EQ(uc.in(send(only, 3, 8)), "place #0 +0 8, complete #0 success 8");
}

TEST_P(UcResponder, NoReceiveDropsTheWholeMessage) {
  EXPECT_EQ(uc.in(send(first, 0, 256)), "");
  uc.post();
  EXPECT_EQ(uc.in(send(middle, 1, 256)), "");
  EXPECT_EQ(uc.in(send(last, 2, 256)), "");
  EXPECT_EQ(uc.in(send(only, 3, 8)), "place #0 +0 8, complete #0 success 8");
  EXPECT_EQ(uc.responder.counters().dropped_messages, 1u);
}

TEST_P(UcResponder, NoReceiveForAnImmediateDropsThatPacket) {
  EXPECT_EQ(uc.in(write(first, 0, 256, 264)), "write +0 256");
  EXPECT_EQ(uc.in(write(last, 1, 8).immediate(1)), "");
  EXPECT_EQ(uc.in(write(only, 2, 8)), "write +0 8");
}

TEST_P(UcResponder, LengthErrorsDropTheMessageAndKeepTheReceive) {
  uc.post(300);
  EXPECT_EQ(uc.in(send(first, 0, 255)), "");
  EXPECT_EQ(uc.in(send(last, 1, 8)), "");
  uc.in(send(first, 2, 256));
  EXPECT_EQ(uc.in(send(middle, 3, 255)), "");
  uc.in(send(first, 4, 256));
  EXPECT_EQ(uc.in(send(last, 5, 0)), "");
  EXPECT_EQ(uc.in(send(only, 6, 257)), "");
  uc.in(send(first, 7, 256));
  EXPECT_EQ(uc.in(send(last, 8, 45)), "") << "a byte more than the receive holds";
  EXPECT_EQ(uc.in(write(only, 9, 8, 9)), "");
  EXPECT_EQ(uc.in(send(only, 10, 8)), "place #0 +0 8, complete #0 success 8");
  EXPECT_FALSE(uc.responder.failed());
  EXPECT_EQ(uc.responder.counters().dropped_messages, 6u);
}

TEST_P(UcResponder, BadKeyDropsTheWholeWrite) {
  EXPECT_EQ(uc.in(write(first, 0, 256, 512).key(MemoryKey{1})), "");
  EXPECT_EQ(uc.in(write(last, 1, 256)), "");
  EXPECT_EQ(uc.in(write(only, 2, 8)), "write +0 8");
  EXPECT_FALSE(uc.responder.failed());
}

TEST_P(UcResponder, MissingRightDropsTheWrite) {
  uc.responder.change(region::kRemoteRead, 0);
  EXPECT_EQ(uc.in(write(only, 0, 8)), "");
  EXPECT_FALSE(uc.responder.failed());
}

TEST_P(UcResponder, RegionThatGoesDropsTheMessageAndKeepsTheReceive) {
  uc.post();
  uc.in(write(only, 0, 8).immediate(1));
  EXPECT_EQ(uc.region_error(), "");
  EXPECT_EQ(uc.in(send(only, 1, 8)), "place #0 +0 8, complete #0 success 8");
}

TEST_P(UcResponder, ReceiveMemoryThatRefusesIsOurOwnFault) {
  uc.post();
  uc.in(send(only, 0, 8));
  EXPECT_EQ(uc.receive_memory_error(), "complete #0 protection-error, fail none");
  EXPECT_TRUE(uc.responder.failed());
}

TEST_P(UcResponder, RepeatedFirstPacketBeginsAgain) {
  // UC cannot tell a duplicated packet from the start of a new message (IBA 9.8.2.2).
  uc.post();
  uc.in(send(first, 0, 256));
  EXPECT_EQ(uc.in(send(first, 0, 256)), "place #0 +0 256");
  EXPECT_EQ(uc.in(send(last, 1, 8)), "place #0 +256 8, complete #0 success 264");
}

}  // namespace
}  // namespace verbatim::transport::bench
