#include <gtest/gtest.h>

#include "transport/ib/responder/responder_test_util.h"

/// RC: SEND with invalidate, access through memory windows, FLUSH and ATOMIC WRITE (annex A19).
namespace verbatim::transport::bench {
namespace {

constexpr auto only = Position::only;
constexpr MemoryKey kUnknown{0x12345678};

class RcResponderMemory : public AtEveryWrap {};
INSTANTIATE_TEST_SUITE_P(Starts, RcResponderMemory, testing::ValuesIn(kStarts));

TEST_P(RcResponderMemory, SendWithInvalidateEndsTheWindowBeforeItCompletes) {
  Bench rc(start());
  rc.post();
  const MemoryKey window = rc.add_window(64, region::kRemoteWrite);
  EXPECT_EQ(rc.in(write(only, 0, 8).key(window)), "write +0 8");
  EXPECT_EQ(rc.in(send(only, 1, 8).invalidate(window).ack()),
            "place #0 +0 8, invalidate, complete #0 success 8 invalidated");
  EXPECT_EQ(rc.out(), "ack 1 msn 2");
  EXPECT_EQ(rc.in(write(only, 2, 8).key(window)), "fail access");
  EXPECT_EQ(rc.out(), "nak-access 2");
}

TEST_P(RcResponderMemory, TheLastPacketInvalidates) {
  Bench rc(start());
  rc.post();
  const MemoryKey window = rc.add_window(64, region::kRemoteWrite);
  EXPECT_EQ(rc.in(send(Position::first, 0, 256)), "place #0 +0 256");
  EXPECT_EQ(rc.in(send(Position::last, 1, 4).invalidate(window)),
            "place #0 +256 4, invalidate, complete #0 success 260 invalidated");
}

TEST_P(RcResponderMemory, RepetitionInvalidatesNothing) {
  Bench rc(start());
  rc.post();
  const MemoryKey window = rc.add_window(64, region::kRemoteWrite);
  rc.in(send(only, 0, 8).invalidate(window));
  EXPECT_EQ(rc.in(send(only, 0, 8).invalidate(window)), "");
  EXPECT_EQ(rc.out(), "ack 0 msn 1");
}

/// IBA 10.6.7.2 and o10-37.2.26: neither regions nor windows of another queue pair.
TEST_P(RcResponderMemory, KeyThatCannotBeInvalidatedIsAnAccessError) {
  for (int which = 0; which < 3; ++which) {
    Bench rc(start());
    rc.post();
    const MemoryKey others = rc.add_window(64, region::kRemoteRead, Qpn(0x99));
    const MemoryKey key = which == 0 ? kUnknown : which == 1 ? rc.key : others;
    EXPECT_EQ(rc.in(send(only, 0, 8).invalidate(key)), "fail access");
    EXPECT_EQ(rc.out(), "nak-access 0");
    EXPECT_TRUE(rc.responder.take_current_receive()) << "it is flushed with the others";
  }
}

TEST_P(RcResponderMemory, InvalidationThatFailsAfterAllTakesTheMessageBack) {
  Bench rc(start());
  rc.post();
  const MemoryKey window = rc.add_window(64, region::kRemoteWrite);
  rc.in(send(only, 0, 8).invalidate(window));
  EXPECT_EQ(rc.region_error(), "fail access");
  EXPECT_EQ(rc.out(), "nak-access 0");
  EXPECT_TRUE(rc.responder.take_current_receive());
}

TEST_P(RcResponderMemory, WindowGivesItsOwnRightsAndBounds) {
  const auto window_of = [](Bench& rc) { return rc.add_window(64, region::kRemoteRead); };
  Bench within(start());
  EXPECT_EQ(within.in(read(0, 64).key(window_of(within))), "");
  EXPECT_EQ(within.out(), "only 0 +0 64");
  Bench behind(start());
  EXPECT_EQ(behind.in(read(0, 65).key(window_of(behind))), "fail access");
  Bench no_right(start());
  EXPECT_EQ(no_right.in(write(only, 0, 8).key(window_of(no_right))), "fail access");
  Bench others(start());
  const MemoryKey window = others.add_window(64, region::kRemoteRead, Qpn(0x99));
  EXPECT_EQ(others.in(read(0, 8).key(window)), "fail access");
}

TEST_P(RcResponderMemory, AtomicWriteIsExecutedOnceAndAnsweredAsAnEmptyRead) {
  Bench rc(start());
  EXPECT_EQ(rc.in(atomic_write(0, 8)), "atomic-write +8");
  EXPECT_EQ(rc.out(), "only 0 empty");
  EXPECT_EQ(rc.in(atomic_write(0, 8)), "");
  EXPECT_EQ(rc.out(), "only 0 empty");
  EXPECT_EQ(rc.executed_atomics, 1);
}

TEST_P(RcResponderMemory, AnswersKeepTheOrderOfTheRequests) {
  Bench rc(start());
  rc.in(write(only, 0, 8).ack());
  rc.in(flush(1, 8));
  rc.in(fetch_add(2, 1));
  rc.in(atomic_write(3));
  rc.in(write(only, 4, 8).ack());
  EXPECT_EQ(rc.out(), "only 1 empty, atomic 2 = 0, only 3 empty, ack 4 msn 5");
}

TEST_P(RcResponderMemory, AtomicWriteIsOfEightAlignedBytes) {
  Bench unaligned(start());
  EXPECT_EQ(unaligned.in(atomic_write(0, 4)), "fail request");
  Bench short_one(start());
  Request request = atomic_write(0);
  request.bytes = 4;
  EXPECT_EQ(short_one.in(request), "fail request");
  Bench wrong_length(start());
  request = atomic_write(0);
  request.headers.reth.length = 4;
  EXPECT_EQ(wrong_length.in(request), "fail request");
}

TEST_P(RcResponderMemory, AtomicWriteNeedsTheRightToWrite) {
  Bench of_queue_pair(start(), Service::rc, 4, region::kRemoteRead);
  EXPECT_EQ(of_queue_pair.in(atomic_write(0)), "fail request");
  Bench of_region(start());
  const MemoryKey key = of_region.add_region(region::kRemoteRead, kPd);
  EXPECT_EQ(of_region.in(atomic_write(0).key(key)), "fail access");
  Bench no_memory(start(), Service::rc, 0);
  EXPECT_EQ(no_memory.in(atomic_write(0)), "fail request");
}

TEST_P(RcResponderMemory, FlushChecksItsRangeAndAnswersAsAnEmptyRead) {
  Bench rc(start());
  EXPECT_EQ(rc.in(flush(0, kRegionBytes)), "flush 1");
  EXPECT_EQ(rc.out(), "only 0 empty");
  EXPECT_EQ(rc.in(flush(0, kRegionBytes)), "");
  EXPECT_EQ(rc.out(), "only 0 empty");
  EXPECT_EQ(rc.in(flush(1, kRegionBytes, 1)), "fail access");
  EXPECT_EQ(rc.out(), "nak-access 1");
}

TEST_P(RcResponderMemory, FlushOfTheRegionLooksAtNoRange) {
  Bench rc(start());
  Request request = flush(0, 8, ~std::uint64_t{0} - kRegionStart);
  request.headers.feth.selectivity = wire::Feth::Selectivity::region;
  EXPECT_EQ(rc.in(request), "flush 1");
  request.psn = 1;
  EXPECT_EQ(rc.in(std::move(request).key(kUnknown)), "fail access");
}

TEST_P(RcResponderMemory, FlushNeedsItsPlacementAsARight) {
  Bench of_queue_pair(start(), Service::rc, 4, kEveryRight & ~region::kFlushGlobal);
  EXPECT_EQ(of_queue_pair.in(flush(0, 8)), "fail request");
  Bench of_region(start());
  const MemoryKey key = of_region.add_region(region::kRemoteWrite, kPd);
  EXPECT_EQ(of_region.in(flush(0, 8).key(key)), "fail access");
  Bench persistent(start());
  Request request = flush(0, 8);
  request.headers.feth.placement = wire::Feth::kPersistent;
  EXPECT_EQ(persistent.in(request), "fail request");
  Bench nowhere(start());
  request.headers.feth.placement = 0;
  EXPECT_EQ(nowhere.in(request), "fail request");
}

}  // namespace
}  // namespace verbatim::transport::bench
