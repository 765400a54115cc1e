#include <gtest/gtest.h>

#include "sim/iwarp_node.h"

/// Violations of the protocol: the fault that each side reports, and how the peer handles it.
namespace verbatim::sim::iwarp {
namespace {

struct Pair {
  Pair() {
    a.configure();
    b.configure();
  }
  /// Passes `a`'s requests to `b`, and `b`'s Terminate back.
  void exchange() { iwarp::exchange(a, b); }
  SendRequest to_b(Operation operation, MemoryKey key, std::uint64_t address = kRegionStart) {
    return {.operation = operation, .length = 8, .remote_address = address, .remote_key = key};
  }
  Node a, b;
};

/// An access that memory refuses, and the resulting fault.
struct Forbidden {
  MemoryKey (*key)(Node& peer);
  std::uint64_t address;
  Fault fault;
};

MemoryKey unknown_key(Node& peer) { return MemoryKey{raw(peer.key) ^ 0x55}; }
MemoryKey foreign_key(Node& peer) { return peer.add_region(kEveryRight, PdNumber{9}); }
MemoryKey right_key(Node& peer) { return peer.key; }

TEST(Fault, ReadsThatMemoryDoesNotAllowFailTheirRequest) {
  const Forbidden rows[] = {
      {unknown_key, kRegionStart, faults::kInvalidStag},
      {foreign_key, kRegionStart, faults::kForeignStag},
      {[](Node& peer) { return peer.add_region(region::kRemoteWrite | region::kLocalWrite); },
       kRegionStart, faults::kAccessRights},
      {right_key, kRegionStart + 0x10000 - 4, faults::kBounds},
      {right_key, ~std::uint64_t{0} - 3, faults::kOffsetWraps},
  };
  for (const Forbidden& row : rows) {
    Pair pair;
    pair.a.post(pair.to_b(Operation::write, pair.b.key));
    pair.a.post(pair.to_b(Operation::read, pair.b.key));
    pair.a.post(pair.to_b(Operation::read, row.key(pair.b), row.address));
    pair.a.post(pair.to_b(Operation::write, pair.b.key));
    pair.b.in(pair.a.out());
    EXPECT_EQ(pair.a.said(), "request 0: 0");
    EXPECT_EQ(pair.b.said(), "failed: access");
    EXPECT_EQ(pair.b.endpoint.sent_terminate(), row.fault);
    pair.a.in(pair.b.out());
    // IBV_WC_REM_ACCESS_ERR; the READ before it is flushed.
    EXPECT_EQ(pair.a.said(),
              "request 1: 5, request 2: 10, requester failed: 10, request 3: 5, failed: none");
    EXPECT_EQ(pair.a.endpoint.received_terminate(), row.fault);
  }
}

/// In the layout of Linux's siw.
TEST(Fault, ReadIsFoundByItsSinkWhereItsNumberIsWrong) {
  Pair pair;
  pair.a.post(pair.to_b(Operation::read, unknown_key(pair.b)));
  pair.b.in(pair.a.out());
  const Bytes fpdu = pair.b.out();
  const std::size_t length = load_be<std::uint16_t>(fpdu.data());
  Bytes segment(fpdu.begin() + wire::kFpduLengthBytes,
                fpdu.begin() + static_cast<std::ptrdiff_t>(wire::kFpduLengthBytes + length));
  constexpr std::size_t kUntagged = 18;
  constexpr std::size_t kFoundIn =
      kUntagged + wire::RdmapTerminate::kSize + wire::RdmapTerminate::kLengthBytes;
  constexpr std::size_t kMessageNumber = kFoundIn + 10;
  store_be(&segment[kMessageNumber], std::uint32_t{4711});
  pair.a.on_segment(segment);
  EXPECT_EQ(pair.a.said(), "request 0: 10, requester failed: 10, failed: none");
}

TEST(Fault, WritesThatMemoryDoesNotAllowEndTheStream) {
  const Forbidden rows[] = {
      {unknown_key, kRegionStart, faults::kTaggedInvalidStag},
      {foreign_key, kRegionStart, faults::kTaggedForeignStag},
      {[](Node& peer) { return peer.add_region(region::kRemoteRead); }, kRegionStart,
       faults::kAccessRights},
      {right_key, kRegionStart - 1, faults::kTaggedBounds},
      {right_key, ~std::uint64_t{0} - 3, faults::kTaggedOffsetWraps},
  };
  for (const Forbidden& row : rows) {
    Pair pair;
    const Bytes before = pair.b.memory;
    pair.a.post(pair.to_b(Operation::write, row.key(pair.b), row.address), pattern(8));
    pair.exchange();
    EXPECT_EQ(pair.b.endpoint.sent_terminate(), row.fault);
    EXPECT_EQ(pair.b.said(), "failed: access");
    EXPECT_EQ(pair.b.memory, before);
    EXPECT_EQ(pair.a.endpoint.received_terminate(), row.fault);
    EXPECT_EQ(pair.a.said(), "request 0: 0, requester failed: 10, failed: none");
  }
}

TEST(Fault, TheQueuePairsOwnRightsCount) {
  for (const auto operation : {Operation::write, Operation::read, Operation::fetch_and_add}) {
    Pair pair;
    pair.b.configure(200, 4, 0);
    pair.a.post(pair.to_b(operation, pair.b.key));
    pair.exchange();
    EXPECT_EQ(pair.b.endpoint.sent_terminate(), faults::kAccessRights);
    EXPECT_EQ(pair.a.endpoint.received_terminate(), faults::kAccessRights);
  }
}

TEST(Fault, ASendWithoutAReceiveRequestEndsTheStream) {
  Pair pair;
  pair.a.post({.operation = Operation::send}, pattern(8));
  pair.exchange();
  EXPECT_EQ(pair.b.endpoint.sent_terminate(), faults::kNoBuffer);
  EXPECT_EQ(pair.b.said(), "failed: request");
  EXPECT_EQ(pair.a.endpoint.received_terminate(), faults::kNoBuffer);
}

TEST(Fault, ASendThatIsTooLongEndsTheStream) {
  Pair pair;
  pair.b.post_receive(300);
  pair.a.post({.operation = Operation::send}, pattern(301));
  pair.exchange();
  EXPECT_EQ(pair.b.endpoint.sent_terminate(), faults::kMessageTooLong);
  EXPECT_EQ(pair.b.said(), "receive 0: status 1, failed: request");
}

TEST(Fault, AnUnalignedAtomicEndsTheStream) {
  Pair pair;
  pair.a.post(pair.to_b(Operation::fetch_and_add, pair.b.key, kRegionStart + 4));
  pair.exchange();
  EXPECT_EQ(pair.b.endpoint.sent_terminate(), faults::kOperation);
  EXPECT_EQ(pair.a.said(), "request 0: 9, requester failed: 9, failed: none");
}

TEST(Fault, WhatGoesAwayMeanwhileEndsTheStream) {
  Pair pair;
  pair.b.refuses_placements = true;
  pair.a.post(pair.to_b(Operation::write, pair.b.key), pattern(8));
  pair.exchange();
  EXPECT_EQ(pair.b.endpoint.sent_terminate(), faults::kInvalidStag);
  EXPECT_EQ(pair.b.said(), "failed: access");
}

TEST(Fault, WhatItsOwnMemoryRefusesFailsARequest) {
  Pair pair;
  SendRequest read = pair.to_b(Operation::read, pair.b.key);
  pair.a.post(read);
  pair.a.post(pair.to_b(Operation::write, pair.b.key));
  pair.a.out();
  RequesterEffects effects;
  pair.a.endpoint.requester().on_local_error(1, Status::local_protection_error, effects);
  pair.a.drain(effects);
  ResponderEffects ended;
  pair.a.endpoint.on_local_error(ended);
  EXPECT_EQ(pair.a.said(), "request 0: 5, request 1: 4, requester failed: 4");
  pair.b.in(pair.a.out());
  EXPECT_EQ(pair.b.endpoint.received_terminate(), faults::kLocalCatastrophe);
}

/// Segments that Verbatim never sends, made by changing one that it does.
class Forged : public testing::Test {
 protected:
  Forged() { b_.configure(); }
  wire::Ddp header(wire::RdmapOpcode opcode) {
    wire::Ddp header{.last = true, .message_number = 1};
    set_rdmap(header, opcode);
    header.stag = raw(b_.key);
    header.offset = kRegionStart;
    return header;
  }
  void in(const wire::Ddp& header, std::size_t payload_bytes) {
    Bytes segment(header.size() + payload_bytes);
    encode(header, segment);
    b_.on_segment(segment);
  }
  void expect(const Fault& fault) {
    ASSERT_TRUE(b_.endpoint.sent_terminate());
    EXPECT_EQ(*b_.endpoint.sent_terminate(), fault)
        << static_cast<int>(b_.endpoint.sent_terminate()->layer) << " "
        << +b_.endpoint.sent_terminate()->type << " " << +b_.endpoint.sent_terminate()->code;
  }
  Node b_;
};

TEST_F(Forged, MessageNumberThatIsNotTheNext) {
  b_.post_receive(8);
  auto send = header(wire::RdmapOpcode::send);
  send.message_number = 2;
  in(send, 8);
  expect(faults::kMessageNumber);
}

TEST_F(Forged, MessageOffsetThatLeavesAGap) {
  b_.post_receive(8);
  auto send = header(wire::RdmapOpcode::send);
  send.message_offset = 1;
  in(send, 4);
  expect(faults::kMessageOffset);
}

TEST_F(Forged, AMessageThatChangesItsKind) {
  b_.post_receive(100);
  auto send = header(wire::RdmapOpcode::send);
  send.last = false;
  in(send, 8);
  auto other = header(wire::RdmapOpcode::send_solicited);
  other.message_offset = 8;
  in(other, 8);
  expect(faults::kUnexpectedOpcode);
}

TEST_F(Forged, ReadResponseThatNobodyAskedFor) {
  in(header(wire::RdmapOpcode::read_response), 8);
  expect(faults::kTaggedInvalidStag);
}

TEST_F(Forged, ReadResponseToAnotherPlace) {
  SendRequest read{.operation = Operation::read, .length = 8};
  b_.post(read);
  b_.out();
  in(header(wire::RdmapOpcode::read_response), 8);
  expect(faults::kTaggedInvalidStag);
  EXPECT_EQ(b_.requests[0], Bytes(8));
}

TEST_F(Forged, ReadResponseThatIsTooLong) {
  b_.post({.operation = Operation::read, .length = 8});
  b_.out();
  auto response = header(wire::RdmapOpcode::read_response);
  response.stag = 1;
  response.offset = 0;
  in(response, 9);
  expect(faults::kTaggedBounds);
}

TEST_F(Forged, ReadResponseThatIsTooShort) {
  b_.post({.operation = Operation::read, .length = 8});
  b_.out();
  auto response = header(wire::RdmapOpcode::read_response);
  response.stag = 1;
  response.offset = 0;
  in(response, 7);
  expect(faults::kOperation);
}

TEST_F(Forged, AtomicResponseThatNobodyAskedFor) {
  in(header(wire::RdmapOpcode::atomic_response), wire::RdmapAtomicResponse::kSize);
  expect(faults::kNoBuffer);
}

TEST_F(Forged, MoreReadRequestsThanWereAgreed) {
  auto request = header(wire::RdmapOpcode::read_request);
  for (std::uint32_t i = 1; i <= 5; ++i) {
    request.message_number = i;
    in(request, wire::RdmapReadRequest::kSize);
  }
  expect(faults::kNoBuffer);
}

TEST_F(Forged, ReadRequestOfAnotherLength) {
  in(header(wire::RdmapOpcode::read_request), wire::RdmapReadRequest::kSize + 4);
  expect(faults::kMessageTooLong);
}

TEST_F(Forged, QueueThatTheOpcodeDoesNotHave) {
  auto send = header(wire::RdmapOpcode::send);
  send.queue = 1;
  in(send, 8);
  expect(faults::kInvalidQueue);
}

TEST_F(Forged, VersionsOfSomebodyElse) {
  Bytes segment(30);
  segment[0] = std::byte{0x82};
  b_.on_segment(segment);
  expect(faults::kTaggedDdpVersion);
}

TEST_F(Forged, BytesThatAreNoFpdu) {
  b_.in(Bytes(64));
  expect(faults::kCrc);
  EXPECT_EQ(b_.said(), "failed: fatal");
}

TEST_F(Forged, TerminateThatEndsTooEarly) {
  in(header(wire::RdmapOpcode::terminate), 2);
  EXPECT_TRUE(b_.endpoint.ended());
  EXPECT_FALSE(b_.endpoint.sent_terminate());
  EXPECT_TRUE(b_.out().empty());
}

TEST_F(Forged, NothingIsHeardAfterTheEnd) {
  in(header(wire::RdmapOpcode::terminate), 4);
  b_.said();
  in(header(wire::RdmapOpcode::write), 8);
  EXPECT_EQ(b_.said(), "");
  EXPECT_EQ(b_.memory, Bytes(0x10000));
}

}  // namespace
}  // namespace verbatim::sim::iwarp
