#include <gtest/gtest.h>

#include "transport/ib/responder/responder.h"
#include "transport/ib/responder/responder_test_util.h"

/// RC: each refusal, its NAK and the state after it.
namespace verbatim::transport::bench {
namespace {

using enum Position;

class RcResponderNak : public AtEveryWrap {};
INSTANTIATE_TEST_SUITE_P(Starts, RcResponderNak, testing::ValuesIn(kStarts));

/// Checks that the packet is refused as an invalid request, nothing of it is executed, and later
/// packets are ignored.
void expect_invalid(Bench& rc, Request request) {
  const int psn = request.psn;
  EXPECT_EQ(rc.in(std::move(request)), "fail request");
  EXPECT_EQ(rc.out(), fmt::format("nak-request {}", psn));
  EXPECT_TRUE(rc.responder.failed());
  EXPECT_EQ(rc.expected(), psn);
  EXPECT_EQ(rc.in(write(only, psn, 8).ack()), "");
  EXPECT_EQ(rc.out(), "");
}

/// IBA 9.9.3, class C. WRITE without its RETH, READ with a payload, opcodes that are reserved.
TEST_P(RcResponderNak, InvalidRequestIsRefusedInItsTurn) {
  for (const int code : {0x06, 0x0c, 0x15, 0x18, 0x1b, 0x1e, 0x1f}) {
    const Opcode opcode{static_cast<std::uint8_t>(code)};
    Bench rc(start());
    EXPECT_EQ(rc.in_invalid(opcode, 1), "");
    EXPECT_EQ(rc.out(), "nak-sequence 0") << "one that is lost comes first";
    rc.in(write(only, 0, 8));
    EXPECT_EQ(rc.in_invalid(opcode, 0), "") << "a duplicate is dropped";
    EXPECT_EQ(rc.out(), "");
    EXPECT_EQ(rc.in_invalid(opcode, 1), "fail request");
    EXPECT_EQ(rc.out(), "nak-request 1");
    EXPECT_TRUE(rc.responder.failed());
  }
}

TEST_P(RcResponderNak, InvalidRequestOfAnotherServiceIsDropped) {
  Bench rc(start());
  EXPECT_EQ(rc.in_invalid(Opcode{0xb5}, 0), "");
  EXPECT_EQ(rc.out(), "");
  EXPECT_FALSE(rc.responder.failed());
}

TEST_P(RcResponderNak, MiddleOrLastWithoutFirst) {
  for (const Position position : {middle, last}) {
    Bench to_send(start());
    to_send.post();
    expect_invalid(to_send, send(position, 0, 256));
    Bench to_write(start());
    expect_invalid(to_write, write(position, 0, 256));
  }
}

TEST_P(RcResponderNak, AnythingElseWithinAMessage) {
  const Request others[] = {
      send(first, 1, 256), send(only, 1, 8),         read(1, 8),
      fetch_add(1, 1),     compare_swap(1, 1, 1),    write(first, 1, 256, 512),
      write(only, 1, 8),   write(middle, 1, 256, 0), write(last, 1, 8)};
  for (const Request& other : others) {
    Bench rc(start());
    rc.post();
    rc.post();
    rc.in(send(first, 0, 256));
    expect_invalid(rc, other);
    EXPECT_TRUE(rc.responder.take_current_receive()) << "left to be flushed";
  }
}

TEST_P(RcResponderNak, SendWithinAWrite) {
  for (const Position position : {first, middle, last, only}) {
    Bench rc(start());
    rc.post();
    rc.in(write(first, 0, 256, 512));
    expect_invalid(rc, send(position, 1, 256));
  }
}

TEST_P(RcResponderNak, FirstPacketMustBeFull) {
  for (const std::size_t bytes : {0, 1, 252, 255, 257, 512}) {
    Bench to_send(start());
    to_send.post();
    expect_invalid(to_send, send(first, 0, bytes));
    Bench to_write(start());
    expect_invalid(to_write, write(first, 0, bytes, 1024));
  }
}

TEST_P(RcResponderNak, MiddlePacketMustBeFull) {
  for (const std::size_t bytes : {0, 255, 257}) {
    Bench rc(start());
    rc.post();
    rc.in(send(first, 0, 256));
    expect_invalid(rc, send(middle, 1, bytes));
  }
}

TEST_P(RcResponderNak, FullPacketHasNoPadding) {
  Bench rc(start());
  rc.post();
  expect_invalid(rc, send(first, 0, 256).pad(1));
}

TEST_P(RcResponderNak, LastPacketHasOneByteToTheMtu) {
  for (const std::size_t bytes : {0, 257}) {
    Bench rc(start());
    rc.post();
    rc.in(send(first, 0, 256));
    expect_invalid(rc, send(last, 1, bytes));
  }
  for (const std::size_t bytes : {1, 256}) {
    Bench rc(start());
    rc.post();
    rc.in(send(first, 0, 256));
    EXPECT_EQ(rc.in(send(last, 1, bytes)),
              fmt::format("place #0 +256 {}, complete #0 success {}", bytes, bytes + 256));
  }
}

TEST_P(RcResponderNak, OnlyPacketIsNotLongerThanTheMtu) {
  Bench to_send(start());
  to_send.post();
  expect_invalid(to_send, send(only, 0, 257));
  Bench to_write(start());
  expect_invalid(to_write, write(only, 0, 257));
}

TEST_P(RcResponderNak, WriteBringsWhatItsRethSaid) {
  for (const std::uint32_t total : {0, 7, 9}) {
    Bench rc(start());
    expect_invalid(rc, write(only, 0, 8, total));
  }
  for (const std::uint32_t total : {263, 265}) {
    Bench rc(start());
    rc.in(write(first, 0, 256, total));
    expect_invalid(rc, write(last, 1, 8));
  }
  Bench too_much(start());
  too_much.in(write(first, 0, 256, 500));
  expect_invalid(too_much, write(middle, 1, 256));
  Bench already(start());
  expect_invalid(already, write(first, 0, 256, 255));
}

TEST_P(RcResponderNak, MessageLongerThanTwoGigabytes) {
  Bench to_write(start());
  expect_invalid(to_write, write(first, 0, 256, kMessageBytesMax + 1));
  Bench to_read(start());
  expect_invalid(to_read, read(0, kMessageBytesMax + 1));
}

TEST_P(RcResponderNak, MisalignedAtomic) {
  for (std::uint64_t offset = 1; offset < 8; ++offset) {
    Bench rc(start());
    expect_invalid(rc, fetch_add(0, 1).at(offset));
    EXPECT_EQ(rc.executed_atomics, 0);
  }
}

TEST_P(RcResponderNak, OperationThatTheQueuePairDoesNotAllow) {
  const auto without = [this](std::uint32_t right) {
    return Bench(start(), Service::rc, 4, kEveryRight & ~right);
  };
  Bench no_write = without(region::kRemoteWrite);
  expect_invalid(no_write, write(only, 0, 8));
  Bench no_empty_write = without(region::kRemoteWrite);
  expect_invalid(no_empty_write, write(only, 0, 0));
  Bench no_read = without(region::kRemoteRead);
  expect_invalid(no_read, read(0, 8));
  Bench no_compare = without(region::kRemoteAtomic);
  expect_invalid(no_compare, compare_swap(0, 1, 1));
  Bench no_add = without(region::kRemoteAtomic);
  expect_invalid(no_add, fetch_add(0, 1));
}

TEST_P(RcResponderNak, RightTakenAwayCountsFromTheNextMessage) {
  Bench rc(start());
  rc.in(write(first, 0, 256, 264));
  rc.responder.change(0, 1);
  EXPECT_EQ(rc.in(write(last, 1, 8)), "write +256 8");
  expect_invalid(rc, write(only, 2, 8));
}

TEST_P(RcResponderNak, NoReadsWithoutMemoryForThem) {
  Bench to_read(start(), Service::rc, 0);
  expect_invalid(to_read, read(0, 8));
  Bench to_add(start(), Service::rc, 0);
  expect_invalid(to_add, fetch_add(0, 1));
}

TEST_P(RcResponderNak, KeyThatDoesNotServeIsAnAccessError) {
  const auto expect_access_error = [this](Request request, bool read_only, PdNumber pd) {
    Bench rc(start());
    const MemoryKey other =
        rc.add_region(read_only ? std::uint32_t{region::kRemoteRead} : kEveryRight, pd);
    rc.in(write(only, 0, 8).ack());
    request.psn = 1;
    if (!request.own_key) request = std::move(request).key(other);
    EXPECT_EQ(rc.in(request), "fail access");
    EXPECT_EQ(rc.out(), "nak-access 1");
    EXPECT_EQ(rc.executed_atomics, 0);
    EXPECT_TRUE(rc.responder.failed());
  };
  constexpr PdNumber kOther{9};
  constexpr MemoryKey kUnknown{0x12345678};
  const Request requests[] = {write(only, 0, 8), write(first, 0, 256, 512), read(0, 8),
                              compare_swap(0, 1, 1), fetch_add(0, 1)};
  for (const Request& request : requests) {
    expect_access_error(Request(request).key(kUnknown), false, kPd);
    expect_access_error(request, false, kOther);
    expect_access_error(Request(request).at(kRegionBytes), false, kPd);
    expect_access_error(Request(request).at(~std::uint64_t{0} - kRegionStart - 7), false, kPd);
    if (request.verb != Verb::read_request) expect_access_error(request, true, kPd);
  }
}

TEST_P(RcResponderNak, KeyIsCheckedForTheWholeMessageAtItsFirstPacket) {
  Bench rc(start());
  EXPECT_EQ(rc.in(write(first, 0, 256, kRegionBytes).at(1)), "fail access");
  Bench fits(start());
  EXPECT_EQ(fits.in(write(first, 0, 256, kRegionBytes)), "write +0 256");
}

TEST_P(RcResponderNak, ReceiveTooSmallEndsBothRequests) {
  Bench rc(start());
  rc.post(7);
  EXPECT_EQ(rc.in(send(only, 0, 8).ack()), "complete #0 length-error, fail none");
  EXPECT_EQ(rc.out(), "nak-request 0");
  EXPECT_FALSE(rc.responder.take_current_receive()) << "completed exactly once";
}

TEST_P(RcResponderNak, ReceiveThatTurnsOutTooSmall) {
  Bench rc(start());
  rc.post(300);
  rc.in(send(first, 0, 256).ack());
  EXPECT_EQ(rc.in(send(middle, 1, 256)), "complete #0 length-error, fail none");
  EXPECT_EQ(rc.out(), "nak-request 1");
}

TEST_P(RcResponderNak, RegionThatGoesDuringAWrite) {
  Bench rc(start());
  rc.in(write(first, 0, 256, 512).ack());
  rc.out();
  EXPECT_EQ(rc.in(write(last, 1, 256).ack()), "write +256 256");
  EXPECT_EQ(rc.region_error(), "fail access");
  EXPECT_EQ(rc.out(), "nak-access 1");
  EXPECT_EQ(rc.expected(), 1);
  EXPECT_EQ(rc.responder.msn(), wire::Msn(0));
}

TEST_P(RcResponderNak, RegionThatGoesUnderAWriteWithImmediateLeavesTheReceive) {
  Bench rc(start());
  rc.post();
  rc.in(write(only, 0, 8).immediate(1));
  EXPECT_EQ(rc.region_error(), "fail access");
  const auto receive = rc.responder.take_current_receive();
  ASSERT_TRUE(receive) << "its completion was dropped: it is flushed";
  EXPECT_EQ(receive->ticket, 0u);
}

TEST_P(RcResponderNak, RegionThatGoesUnderAnAtomic) {
  Bench rc(start());
  rc.in(fetch_add(0, 1));
  rc.out();
  rc.answer_atomics = false;
  rc.in(fetch_add(1, 1));
  EXPECT_EQ(rc.region_error(), "fail access");
  EXPECT_EQ(rc.out(), "nak-access 1");
  EXPECT_EQ(rc.expected(), 1);
}

TEST_P(RcResponderNak, ReceiveMemoryThatRefusesIsAnOperationalError) {
  Bench rc(start());
  rc.post();
  rc.in(write(only, 0, 8));
  rc.in(send(only, 1, 8).ack());
  EXPECT_EQ(rc.receive_memory_error(), "complete #0 protection-error, fail none");
  EXPECT_EQ(rc.out(), "nak-operational 1");
  EXPECT_FALSE(rc.responder.take_current_receive());
}

TEST_P(RcResponderNak, ReceiveMemoryThatRefusesWithinAMessage) {
  Bench rc(start());
  rc.post();
  rc.in(send(first, 0, 256));
  EXPECT_EQ(rc.receive_memory_error(), "complete #0 protection-error, fail none");
  EXPECT_EQ(rc.out(), "nak-operational 0");
}

TEST_P(RcResponderNak, AnswersBeforeTheNakStillLeave) {
  Bench rc(start());
  rc.in(read(0, 512));
  EXPECT_EQ(rc.in(write(only, 2, 8).key(MemoryKey{1})), "fail access");
  EXPECT_EQ(rc.out(), "first 0 +0 256, last 1 +256 256, nak-access 2");
}

TEST_P(RcResponderNak, PacketsOfOtherServicesAreIgnored) {
  Bench rc(start());
  rc.post();
  EXPECT_EQ(rc.in(send(only, 0, 8).on(Service::uc).ack()), "");
  EXPECT_EQ(rc.in(send(only, 0, 8).on(Service::ud).ack()), "");
  EXPECT_EQ(rc.in({.verb = Verb::acknowledge, .position = only}), "");
  EXPECT_EQ(rc.out(), "");
  EXPECT_FALSE(rc.responder.failed());
  EXPECT_EQ(rc.established, 0);
}

}  // namespace
}  // namespace verbatim::transport::bench
