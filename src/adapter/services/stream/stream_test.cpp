#include <array>
#include <thread>

#include <sys/socket.h>

#include "adapter/services/stream/stream_connection.h"
#include "adapter/services/stream/stream_test_util.h"

/// Queue pairs over iWARP, between two adapters of one process.
namespace verbatim::adapter {
namespace {

TEST_F(StreamPair, MovesBytesByEveryOperation) {
  connect();
  move_bytes();
}

TEST_F(StreamPair, MarkersAndCrcAreAsAgreed) {
  connect({.sends_markers = true, .has_crc = false, .inbound_reads = 1, .outbound_reads = 1});
  move_bytes();
}

TEST_F(StreamPair, WithoutACrcPayloadIsSentFromWhereItLies) {
  connect({.has_crc = false, .inbound_reads = 4, .outbound_reads = 4});
  move_bytes();
  fill(left, 0, 300'000, 9);
  receive(right, 400'000, 300'000);
  const std::array<Segment, 3> segments{left.segment(0, 100'000), left.segment(100'000, 3),
                                        left.segment(100'003, 199'997)};
  ASSERT_EQ(0, left.qp->post_send({.wr_id = 1,
                                   .request = {.operation = Operation::send, .length = 300'000},
                                   .segments = segments,
                                   .flags = kPostSignaled}));
  EXPECT_EQ(Status::success, right.next().status);
  EXPECT_TRUE(is_same(0, 400'000, 300'000));
  EXPECT_EQ(Status::success, left.next().status);
}

TEST_F(StreamPair, WithoutACrcAWrongLocalKeyFailsTheRequest) {
  connect({.has_crc = false});
  std::array<Segment, 2> segments{left.segment(0, 10'000), left.segment(10'000, 10'000)};
  segments[1].key ^= 0x100;
  receive(right, 400'000, 20'000);
  ASSERT_EQ(0, left.qp->post_send({.wr_id = 1,
                                   .request = {.operation = Operation::send, .length = 20'000},
                                   .segments = segments,
                                   .flags = kPostSignaled}));
  EXPECT_EQ(Status::local_protection_error, left.next().status);
  EXPECT_EQ(Status::flushed, right.next().status);
}

TEST_F(StreamPair, PeersSayThatTheyAreReady) {
  connect({.inbound_reads = 1, .outbound_reads = 1, .ready = MpaParameters::RtrMessage::read});
  receive(left, 0, 100);
  fill(right, 0, 100, 3);
  ASSERT_EQ(0, right.post(Operation::send, right.segment(0, 100)));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(Status::success, right.next().status);
  move_bytes();
}

TEST_F(StreamPair, AnEndWaitsUntilThePeerHasSeenThatThisSideIsReady) {
  prepare(left);
  link::TcpPair tcp;
  const MpaParameters agreement{.outbound_reads = 1, .ready = MpaParameters::RtrMessage::read};
  ASSERT_TRUE(start_stream(
      left, {.socket = std::move(tcp.active), .agreement = agreement, .is_initiator = true}));
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  constexpr std::size_t kRead = 2 + 18 + 28 + 4, kWrite = 2 + 14 + 4;  // FPDUs without payload.
  std::array<std::byte, kRead + kWrite> said;
  EXPECT_EQ(recv(tcp.passive.get(), said.data(), said.size(), MSG_WAITALL),
            static_cast<ssize_t>(said.size()));
  EXPECT_EQ(send(tcp.passive.get(), said.data(), 1, 0), 1);
  ssize_t got = 1;
  while (got > 0) got = recv(tcp.passive.get(), said.data(), said.size(), 0);
  EXPECT_EQ(got, 0);
}

TEST_F(StreamPair, ImmediateDataComesWithItsWrite) {
  connect();
  receive(right, 0, 0);
  ASSERT_EQ(0, left.post(Operation::write_with_immediate, left.segment(0, 5000), &right, 0));
  const Completion received = right.next();
  EXPECT_EQ(CompletionOpcode::receive_write_with_immediate, received.opcode);
  EXPECT_EQ(5000u, received.byte_count);
  EXPECT_EQ(0x11223344u, received.immediate);
}

TEST_F(StreamPair, ManyRequestsBothWays) {
  connect();
  constexpr int kMessages = 500;
  const auto flood = [](Side& from, const Side& to) {
    int completed = 0;
    for (int posted = 0; completed < kMessages;) {
      while (posted < kMessages && posted - completed < 60) {
        const auto length = static_cast<std::uint32_t>(posted * 211 % 60'000);
        const auto operation = posted % 3 == 0 ? Operation::read : Operation::write;
        ASSERT_EQ(0, from.post(operation, from.segment(500'000, length), &to, 100'000));
        ++posted;
      }
      ASSERT_EQ(Status::success, from.next().status) << completed;
      ++completed;
    }
  };
  std::thread other([&] { flood(right, left); });
  flood(left, right);
  other.join();
}

TEST_F(StreamPair, AWrongKeyFailsTheReadAndEndsBothSides) {
  connect();
  const Segment local = left.segment(0, 8);
  ASSERT_EQ(0, left.qp->post_send({.wr_id = 1,
                                   .request = {.operation = Operation::read,
                                               .length = 8,
                                               .remote_address = right.address(),
                                               .remote_key = MemoryKey{raw(right.key) ^ 0x100}},
                                   .segments = std::span(&local, 1),
                                   .flags = kPostSignaled}));
  receive(right, 0, 100);
  EXPECT_EQ(Status::remote_access_error, left.next().status);
  EXPECT_EQ(Status::flushed, right.next().status);
  EXPECT_EQ(QpState::err, left.qp->query().state);
  EXPECT_EQ(QpState::err, right.qp->query().state);
}

TEST_F(StreamPair, AWrongLocalKeyFailsTheRequestAndEndsBothSides) {
  connect();
  Segment local = left.segment(0, 8);
  local.key ^= 0x100;
  receive(right, 0, 100);
  ASSERT_EQ(0, left.post(Operation::send, local));
  EXPECT_EQ(Status::local_protection_error, left.next().status);
  EXPECT_EQ(Status::flushed, right.next().status);
}

TEST_F(StreamPair, WhoseProgramEndsIsHeardAfterItsLastMessage) {
  connect();
  receive(right, 0, 100);
  receive(right, 0, 100);
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 100)));
  ASSERT_EQ(Status::success, left.next().status);
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  EXPECT_EQ(Status::success, right.next().status);
  EXPECT_EQ(Status::flushed, right.next().status);
  EXPECT_EQ(QpState::err, right.qp->query().state);
}

TEST_F(StreamPair, AStreamThatIsEndedEndsAtThePeerToo) {
  connect();
  move_bytes();
  left.node.adapter->end_stream(left.qp->number());
  left.node.adapter->end_stream(left.qp->number());  // Once more changes nothing.
  EXPECT_EQ(QpState::err, left.qp->query().state);
  receive(right, 0, 8);
  EXPECT_EQ(Status::flushed, right.next().status);
  EXPECT_EQ(QpState::err, right.qp->query().state);
}

TEST_F(StreamPair, WhatWasPostedLeavesBeforeAnEnd) {
  connect();
  constexpr int kMessages = 5;
  for (int i = 0; i < kMessages; ++i) receive(right, 0, 100);
  poll_until_rest();
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 100)));
  }
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(Status::success, left.next().status) << i;
    EXPECT_EQ(Status::success, right.next().status) << i;
  }
}

TEST_F(StreamPair, WhatIsLeftToAPollLeavesWithoutOne) {
  connect();
  for (int i = 0; i < 3; ++i) {
    receive(right, 0, 100);
    receive(right, 0, 100);
    poll_until_rest();
    ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 100)));
    ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 100)));
    EXPECT_EQ(Status::success, right.next().status);
    EXPECT_EQ(Status::success, right.next().status);
    EXPECT_EQ(Status::success, left.next().status);
    EXPECT_EQ(Status::success, left.next().status);
  }
}

TEST_F(StreamPair, OnlyFromInit) {
  link::TcpPair tcp;
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  EXPECT_FALSE(start_stream(left, {.socket = std::move(tcp.active)}));
  EXPECT_EQ(QpState::err, left.qp->query().state);
}

TEST(DdpSegment, FitsATcpSegmentWithWhatMpaAdds) {
  for (std::size_t tcp = 536; tcp < 70'000; tcp += 77) {
    for (const bool markers : {false, true}) {
      const std::size_t segment = services::ddp_segment_bytes(tcp, markers);
      const std::size_t fpdu = wire::fpdu_bytes(segment);
      EXPECT_LE(fpdu + (markers ? (fpdu / 508 + 1) * 4 : 0), tcp) << tcp;
      EXPECT_GE(segment + 600, std::min<std::size_t>(tcp, 65'000)) << tcp;
    }
  }
}

}  // namespace
}  // namespace verbatim::adapter
