#include <gtest/gtest.h>

#include "sim/iwarp_node.h"

/// Two endpoints, without faults.
namespace verbatim::sim::iwarp {
namespace {

struct Pair {
  explicit Pair(std::uint32_t segment_bytes_max = 200, std::uint8_t reads = 4) {
    a.configure(segment_bytes_max, reads);
    b.configure(segment_bytes_max, reads);
  }
  SendRequest to_b(Operation operation, std::uint64_t offset = 0) const {
    return {.operation = operation, .remote_address = kRegionStart + offset, .remote_key = b.key};
  }
  void exchange() { iwarp::exchange(a, b); }
  Node a, b;
};

TEST(Endpoint, AWriteLiesInThePeersMemoryAndCompletesWhenTheStreamHasIt) {
  Pair pair;
  pair.a.post(pair.to_b(Operation::write, 100), pattern(1000));
  const Bytes stream = pair.a.out();
  EXPECT_EQ(pair.a.said(), "request 0: 0");
  pair.b.in(stream);
  EXPECT_EQ(Bytes(pair.b.memory.begin() + 100, pair.b.memory.begin() + 1100), pattern(1000));
  EXPECT_EQ(pair.b.said(), "");
  EXPECT_TRUE(pair.b.out().empty());
}

TEST(Endpoint, ASendFillsAReceiveRequest) {
  Pair pair;
  pair.b.post_receive(2000);
  pair.a.post({.operation = Operation::send, .solicited = true}, pattern(1000));
  pair.exchange();
  EXPECT_EQ(pair.b.said(), "receive 0: 1000 bytes solicited");
  EXPECT_EQ(Bytes(pair.b.receives[0].begin(), pair.b.receives[0].begin() + 1000), pattern(1000));
}

TEST(Endpoint, EmptyMessagesAreMessages) {
  Pair pair;
  pair.b.post_receive(0);
  pair.a.post({.operation = Operation::send});
  pair.a.post({.operation = Operation::write});
  pair.a.post({.operation = Operation::read});
  pair.exchange();
  EXPECT_EQ(pair.b.said(), "receive 0: 0 bytes");
  EXPECT_EQ(pair.a.said(), "request 0: 0, request 1: 0, request 2: 0");
}

TEST(Endpoint, AReadBringsThePeersBytesAndCompletesThen) {
  Pair pair;
  pair.b.memory = pattern(0x10000, 5);
  SendRequest read = pair.to_b(Operation::read, 50);
  read.length = 3000;
  pair.a.post(read);
  const Bytes request = pair.a.out();
  EXPECT_EQ(pair.a.said(), "");
  pair.b.in(request);
  pair.a.in(pair.b.out());
  EXPECT_EQ(pair.a.said(), "request 0: 0");
  EXPECT_EQ(pair.a.requests[0], Bytes(pair.b.memory.begin() + 50, pair.b.memory.begin() + 3050));
}

TEST(Endpoint, WhatFollowsAReadCompletesAfterIt) {
  Pair pair;
  SendRequest read = pair.to_b(Operation::read);
  read.length = 10;
  pair.a.post(read);
  pair.a.post(pair.to_b(Operation::write), pattern(10));
  const Bytes both = pair.a.out();
  EXPECT_EQ(pair.a.said(), "");
  pair.b.in(both);
  pair.a.in(pair.b.out());
  EXPECT_EQ(pair.a.said(), "request 0: 0, request 1: 0");
}

TEST(Endpoint, AFenceWaitsForTheReadsBeforeIt) {
  Pair pair;
  SendRequest read = pair.to_b(Operation::read);
  read.length = 10;
  pair.a.post(read);
  SendRequest fenced = pair.to_b(Operation::write);
  fenced.fence = true;
  pair.a.post(fenced, pattern(10));
  pair.b.in(pair.a.out());
  EXPECT_TRUE(pair.a.out().empty());
  pair.a.in(pair.b.out());
  EXPECT_FALSE(pair.a.out().empty());
  EXPECT_EQ(pair.a.said(), "request 0: 0, request 1: 0");
}

TEST(Endpoint, NoMoreReadsAreAtThePeerThanItAllows) {
  Pair pair(200, 2);
  SendRequest read = pair.to_b(Operation::read);
  read.length = 10;
  for (int i = 0; i < 5; ++i) pair.a.post(read);
  const Bytes two = pair.a.next();
  EXPECT_FALSE(two.empty());
  EXPECT_FALSE(pair.a.next().empty());
  EXPECT_TRUE(pair.a.next().empty());
}

TEST(Endpoint, ReadsBeyondTheDepthWaitAndAllAreAnswered) {
  Pair pair(200, 2);
  SendRequest read = pair.to_b(Operation::read);
  read.length = 700;
  for (int i = 0; i < 5; ++i) pair.a.post(read);
  pair.exchange();
  EXPECT_EQ(pair.a.said(), "request 0: 0, request 1: 0, request 2: 0, request 3: 0, request 4: 0");
}

// RFC 7306, section 5.
TEST(Endpoint, AtomicsTellTheValueBefore) {
  Pair pair;
  SendRequest add = pair.to_b(Operation::fetch_and_add, 8);
  add.length = 8;
  add.compare_add = 5;
  pair.a.post(add);
  SendRequest swap = pair.to_b(Operation::compare_and_swap, 8);
  swap.length = 8;
  swap.compare_add = 5;
  swap.swap = 77;
  pair.a.post(swap);
  swap.compare_add = 5;
  pair.a.post(swap);
  pair.exchange();
  EXPECT_EQ(pair.a.said(), "found 0, request 0: 0, found 5, request 1: 0, found 77, request 2: 0");
}

// RFC 7306, section 6.
TEST(Endpoint, ImmediateDataFollowsItsWrite) {
  Pair pair;
  pair.b.post_receive(0);
  SendRequest write = pair.to_b(Operation::write_with_immediate, 20);
  write.immediate = 0x1234;
  write.solicited = true;
  pair.a.post(write, pattern(500));
  pair.exchange();
  EXPECT_EQ(pair.a.said(), "request 0: 0");
  EXPECT_EQ(pair.b.said(), "receive 0: 500 bytes written immediate 0x1234 solicited");
}

TEST(Endpoint, ASendMayEndTheBindingOfAWindow) {
  Pair pair;
  pair.b.post_receive(10);
  const MemoryKey window = pair.b.add_window(100);
  SendRequest send{.operation = Operation::send_with_invalidate, .remote_key = window};
  pair.a.post(send, pattern(10));
  SendRequest write{
      .operation = Operation::write, .remote_address = kRegionStart, .remote_key = window};
  pair.a.post(write, pattern(10));
  pair.b.in(pair.a.out());
  EXPECT_EQ(pair.b.said(), "receive 0: 10 bytes invalidated, failed: access");
  EXPECT_EQ(pair.b.endpoint.sent_terminate(), faults::kTaggedInvalidStag);
}

// RFC 5041, section 5.2: segments of two messages do not mix.
TEST(Endpoint, AMessageIsNotInterrupted) {
  Pair pair;
  SendRequest read = pair.to_b(Operation::read);
  read.length = 1000;
  pair.a.post(read);
  pair.b.in(pair.a.out());
  pair.a.post_receive(1000);
  pair.b.post({.operation = Operation::send}, pattern(1000));
  std::string order;
  for (Bytes segment = pair.b.next(); !segment.empty(); segment = pair.b.next()) {
    order += wire::decode_ddp(segment)->tagged ? 'r' : 's';
  }
  EXPECT_TRUE(order == "rrrrrrssssss" || order == "ssssssrrrrrr") << order;
}

// RFC 6581, section 9: the initiator's RTR message is empty and completes no request.
TEST(Endpoint, ReadinessIsNobodysRequest) {
  for (const auto ready : {Requester::RtrMessage::write, Requester::RtrMessage::read}) {
    Pair pair(200, 1);
    pair.a.endpoint.requester().post_rtr(ready);
    SendRequest read = pair.to_b(Operation::read);
    read.length = 100;
    pair.a.post(read);
    pair.exchange();
    EXPECT_EQ(pair.a.said(), "request 0: 0");
    EXPECT_EQ(pair.b.said(), "");
    EXPECT_FALSE(pair.b.endpoint.ended());
  }
}

TEST(Endpoint, ReadinessInterruptsNoMessage) {
  Pair pair(200, 1);
  pair.b.post_receive(1000);
  pair.a.post({.operation = Operation::send}, pattern(1000));
  OutgoingSegment first;
  ASSERT_TRUE(pair.a.endpoint.poll_transmit(first));
  pair.a.endpoint.requester().post_rtr(Requester::RtrMessage::write);
  OutgoingSegment next;
  while (pair.a.endpoint.requester().in_message()) {
    ASSERT_TRUE(pair.a.endpoint.poll_transmit(next));
    EXPECT_FALSE(next.header.tagged);
  }
  ASSERT_TRUE(pair.a.endpoint.poll_transmit(next));
  EXPECT_TRUE(next.header.tagged);
}

TEST(Endpoint, ReadinessLeavesWhereEveryRequestWasFlushed) {
  Pair pair;
  RequesterEffects effects;
  pair.a.endpoint.requester().flush(effects);
  pair.a.endpoint.requester().post_rtr(Requester::RtrMessage::write);
  EXPECT_FALSE(pair.a.out().empty());
}

TEST(Endpoint, WhoAcceptsWaitsForTheFirstMessage) {
  Pair pair;
  pair.b.endpoint.hold_until_first_segment();
  pair.a.post_receive(10);
  pair.b.post({.operation = Operation::send}, pattern(10));
  EXPECT_TRUE(pair.b.out().empty());
  pair.a.endpoint.requester().post_rtr(Requester::RtrMessage::write);
  pair.exchange();
  EXPECT_EQ(pair.b.said(), "request 0: 0");
  EXPECT_EQ(pair.a.said(), "receive 0: 10 bytes");
}

TEST(Endpoint, ALocalOperationHasItsTurn) {
  Pair pair;
  pair.a.post(pair.to_b(Operation::write), pattern(10));
  pair.a.post({.operation = Operation::local_invalidate});
  EXPECT_EQ(pair.a.endpoint.requester().poll_local(), std::nullopt);
  EXPECT_FALSE(pair.a.out().empty());
  EXPECT_EQ(pair.a.said(), "request 0: 0");
  EXPECT_EQ(pair.a.endpoint.requester().poll_local(), Slot{1});
  EXPECT_TRUE(pair.a.out().empty());
  EXPECT_EQ(pair.a.said(), "request 1: 0");
}

TEST(Endpoint, FlushedRequestsEndInTheirOrder) {
  Pair pair;
  SendRequest read = pair.to_b(Operation::read);
  read.length = 10;
  pair.a.post(pair.to_b(Operation::write), pattern(10));
  pair.a.post(read);
  pair.a.post(pair.to_b(Operation::write), pattern(10));
  pair.a.out();
  EXPECT_EQ(pair.a.said(), "request 0: 0");
  pair.a.flush();
  EXPECT_EQ(pair.a.said(), "request 1: 5, request 2: 5");
}

/// All operations together, in chunks of random size, with and without markers.
TEST(Endpoint, AStreamOfAnythingArrivesWhole) {
  for (const bool has_markers : {false, true}) {
    const StreamOptions options{.has_crc = true, .has_markers = has_markers};
    Node a(options), b(options);
    a.configure(1444, 3);
    b.configure(1444, 3);
    std::size_t messages = 0;
    for (unsigned i = 0; i < 40; ++i) {
      const std::size_t bytes = (i * 977) % 9000;
      switch (i % 4) {
        case 0:
          b.post_receive(bytes);
          a.post({.operation = Operation::send}, pattern(bytes, i));
          ++messages;
          break;
        case 1:
          a.post({.operation = Operation::write,
                  .remote_address = kRegionStart + 9000,
                  .remote_key = b.key},
                 pattern(bytes, i));
          break;
        case 2:
          a.post({.operation = Operation::read,
                  .length = 500 + bytes,
                  .remote_address = kRegionStart + 9000,
                  .remote_key = b.key});
          break;
        default:
          a.post_receive(bytes);
          b.post({.operation = Operation::send}, pattern(bytes, i));
          ++messages;
      }
    }
    std::size_t chunk = 1;
    for (bool more = true; more;) {
      more = false;
      for (Node* from : {&a, &b}) {
        const Bytes stream = from->out();
        Node& to = from == &a ? b : a;
        for (std::size_t at = 0; at < stream.size();) {
          chunk = chunk * 5 % 4093;
          const std::size_t end = std::min(stream.size(), at + chunk);
          to.in(Bytes(stream.begin() + static_cast<std::ptrdiff_t>(at),
                      stream.begin() + static_cast<std::ptrdiff_t>(end)));
          at = end;
        }
        more |= !stream.empty();
      }
    }
    EXPECT_FALSE(a.endpoint.ended());
    EXPECT_FALSE(b.endpoint.ended());
    EXPECT_EQ(a.endpoint.requester().outstanding(), 0u);
    EXPECT_EQ(b.endpoint.requester().outstanding(), 0u);
    EXPECT_EQ(a.receives.size() + b.receives.size(), messages);
    for (unsigned i = 0; i < 40; i += 4) {
      EXPECT_EQ(b.receives[i / 4], pattern((i * 977) % 9000, i)) << i;
      EXPECT_EQ(a.receives[i / 4], pattern(((i + 3) * 977) % 9000, i + 3)) << i;
    }
  }
}

}  // namespace
}  // namespace verbatim::sim::iwarp
