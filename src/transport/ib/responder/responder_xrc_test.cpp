#include <gtest/gtest.h>

#include "transport/ib/responder/responder_test_util.h"

/// XRC in addition to RC: each request names a shared receive queue (IBA annex A14).
namespace verbatim::transport::bench {
namespace {

TEST(XrcResponder, ServesWhatRcServes) {
  Bench xrc(Psn(0xfffffe), Service::xrc);
  xrc.post();
  EXPECT_EQ(xrc.in(send(Position::first, 0, kMtu)), "place #0 +0 256");
  EXPECT_EQ(xrc.in(send(Position::last, 1, 4).ack()), "place #0 +256 4, complete #0 success 260");
  EXPECT_EQ(xrc.in(write(Position::only, 2, 8).ack()), "write +0 8");
  EXPECT_EQ(xrc.in(read(3, 300)), "");
  EXPECT_EQ(xrc.in(fetch_add(5, 1)), "fetch-add");
  EXPECT_EQ(xrc.out(), "ack 2 msn 2, first 3 +0 256, last 4 +256 44, atomic 5 = 0");
}

TEST(XrcResponder, AnswersInItsOwnOpcodes) {
  Bench xrc(Psn(0), Service::xrc);
  const auto service_of_next = [&xrc] {
    OutgoingPacket packet;
    EXPECT_TRUE(xrc.responder.poll_transmit(packet));
    return wire::info(packet.headers.bth.opcode).service;
  };
  xrc.in(write(Position::only, 0, 8).ack());
  EXPECT_EQ(service_of_next(), Service::xrc);
  xrc.in(read(1, 8));
  EXPECT_EQ(service_of_next(), Service::xrc);
  xrc.in(fetch_add(2, 1));
  EXPECT_EQ(service_of_next(), Service::xrc);
}

TEST(XrcResponder, AnRcPacketIsDropped) {
  Bench xrc(Psn(0), Service::xrc);
  xrc.post();
  Bench rc(Psn(0), Service::rc);
  rc.post();
  EXPECT_EQ(rc.in(send(Position::only, 0, 8).on(Service::xrc)), "");
  EXPECT_EQ(xrc.in(send(Position::only, 0, 8).on(Service::uc)), "");
  EXPECT_EQ(xrc.out() + rc.out(), "");
}

TEST(XrcResponder, A14_UnknownQueueIsAnInvalidRequest) {
  Bench xrc(Psn(0), Service::xrc);
  xrc.post();
  EXPECT_EQ(xrc.in(send(Position::only, 0, 8).for_srq(SrqNumber{0x99})), "fail request");
  EXPECT_EQ(xrc.out(), "nak-request 0");
  EXPECT_EQ(xrc.receives_left(), 1u);
}

TEST(XrcResponder, A14_EveryOperationNamesAQueue) {
  for (const Request& request : {write(Position::only, 0, 8), read(0, 8), fetch_add(0, 1)}) {
    Bench xrc(Psn(0), Service::xrc);
    EXPECT_EQ(xrc.in(Request(request).for_srq(SrqNumber{0x99})), "fail request");
  }
}

TEST(XrcResponder, A14_KeysBelongToTheQueuesDomain) {
  Bench xrc(Psn(0), Service::xrc);
  const MemoryKey others = xrc.add_region(kEveryRight, kOtherPd);
  EXPECT_EQ(xrc.in(write(Position::only, 0, 8).key(others).for_srq(kOtherSrq)), "write +0 8");
  EXPECT_EQ(xrc.in(write(Position::only, 1, 8)), "write +0 8");
  EXPECT_EQ(xrc.in(write(Position::only, 2, 8).key(others)), "fail access");
}

TEST(XrcResponder, AReadAnsweredLaterKeepsItsDomain) {
  Bench xrc(Psn(0), Service::xrc);
  const MemoryKey others = xrc.add_region(kEveryRight, kOtherPd);
  xrc.in(read(0, 8).key(others).for_srq(kOtherSrq));
  xrc.in(write(Position::only, 1, 8));
  OutgoingPacket packet;
  ASSERT_TRUE(xrc.responder.poll_transmit(packet));
  EXPECT_EQ(packet.payload.pd, kOtherPd);
}

TEST(XrcResponder, ARepeatedReadNeedsItsQueueStill) {
  Bench xrc(Psn(0), Service::xrc);
  xrc.in(read(0, 8));
  EXPECT_EQ(xrc.out(), "only 0 +0 8");
  xrc.in(read(0, 8).for_srq(SrqNumber{0x99}));
  EXPECT_EQ(xrc.out(), "") << "a repetition that cannot be served is silent";
  xrc.in(read(0, 8));
  EXPECT_EQ(xrc.out(), "only 0 +0 8");
}

TEST(XrcResponder, A14_AMessageKeepsToItsQueue) {
  Bench xrc(Psn(0), Service::xrc);
  xrc.post();
  EXPECT_EQ(xrc.in(send(Position::first, 0, kMtu)), "place #0 +0 256");
  EXPECT_EQ(xrc.in(send(Position::last, 1, 8).for_srq(kOtherSrq)), "fail request");
}

TEST(XrcResponder, EmptyQueueIsReceiverNotReady) {
  Bench xrc(Psn(0), Service::xrc);
  EXPECT_EQ(xrc.in(send(Position::only, 0, 8)), "");
  EXPECT_EQ(xrc.out(), "rnr 0 timer 12");
  xrc.post();
  EXPECT_EQ(xrc.in(send(Position::only, 0, 8).ack()), "place #0 +0 8, complete #0 success 8");
  EXPECT_EQ(xrc.out(), "ack 0 msn 1");
}

}  // namespace
}  // namespace verbatim::transport::bench
