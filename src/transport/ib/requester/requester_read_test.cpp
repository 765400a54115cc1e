#include <gtest/gtest.h>

#include "transport/ib/requester/requester_test_util.h"

/// READs and atomics: requests, repeated requests, and responses that break the rules.
namespace verbatim::transport {
namespace {

using wire::Position;
using Psns = std::vector<std::uint32_t>;

constexpr wire::Opcode kReadRequest = opcode(0x0c);

TEST(RequesterRead, ResponsesArePlacedAndTheLastCompletes) {
  RequesterBench bench;
  bench.post(Operation::read, 600, 0x1000);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{kReadRequest, 0, 600, 0x1000, true}}));
  bench.read_response(0, Position::first, 256);
  bench.read_response(1, Position::middle, 256);
  EXPECT_TRUE(bench.ended().empty());
  bench.read_response(2, Position::last, 88);
  const auto placed = bench.placed();
  ASSERT_EQ(placed.size(), 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(placed[i].slot, 0);
    EXPECT_EQ(placed[i].offset, i * 256);
  }
  EXPECT_EQ(placed[2].payload.size(), 88);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
}

TEST(RequesterRead, CompletionNeverComesWithTheLastPlacement) {
  Requester requester(4);
  requester.configure({});
  requester.post({.operation = Operation::read, .length = 8});
  OutgoingPacket sent;
  ASSERT_TRUE(requester.poll_transmit(0, sent));
  std::byte payload[8]{};
  wire::Packet packet{.payload = payload};
  packet.headers.bth.opcode = opcode(0x10);
  RequesterEffects effects;
  requester.on_packet(packet, 0, effects);
  ASSERT_EQ(effects.list.size(), 1);
  EXPECT_TRUE(std::holds_alternative<PlaceResponse>(effects.list[0]));
  EXPECT_TRUE(effects.more);
  effects.list.clear();
  requester.on_local_error(0, Status::local_protection_error, effects);
  ASSERT_EQ(effects.list.size(), 2);
  EXPECT_EQ(std::get<CompleteRequest>(effects.list[0]).status, Status::local_protection_error);
  EXPECT_TRUE(std::holds_alternative<RequesterFailed>(effects.list[1]));
  EXPECT_FALSE(effects.more);
}

TEST(RequesterRead, AtomicReturnsTheValueBefore) {
  RequesterBench bench;
  bench.post(Operation::fetch_and_add, 8);
  bench.transmit();
  bench.atomic_response(0, 0x123456789abcdef0);
  const auto atomics = bench.atomics();
  ASSERT_EQ(atomics.size(), 1);
  EXPECT_EQ(atomics[0].original, 0x123456789abcdef0);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
}

TEST(RequesterRead, ResponseAcknowledgesWhatWasBeforeIt) {
  RequesterBench bench;
  bench.post(Operation::send, 10);
  bench.post(Operation::write, 10);
  bench.post(Operation::read, 10);
  bench.transmit();
  bench.read_response(2, Position::only, 10);
  EXPECT_EQ(bench.ended(),
            (std::vector<Ended>{{0, Status::success}, {1, Status::success}, {2, Status::success}}));
}

TEST(RequesterRead, MaxRdAtomicIsRespected) {
  RequesterBench bench({.max_rd_atomic = 2});
  for (int i = 0; i < 2; ++i) bench.post(Operation::read, 10);
  bench.post(Operation::compare_and_swap, 8);
  bench.post(Operation::send, 10);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  bench.read_response(0, Position::only, 10);
  EXPECT_EQ(bench.transmit_psns(), (Psns{2, 3}));
}

TEST(RequesterRead, LargeReadAsksForAQuarterOfTheWindowAtATime) {
  RequesterBench bench({.max_rd_atomic = 8, .window_bytes_max = 16 * 768});
  bench.post(Operation::read, 18 * 256 + 1, 0x1000);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{kReadRequest, 0, 1024, 0x1000, true},
                                                 {kReadRequest, 4, 1024, 0x1400, true},
                                                 {kReadRequest, 8, 1024, 0x1800, true},
                                                 {kReadRequest, 12, 1024, 0x1c00, true}}));
  const Position positions[] = {Position::first, Position::middle, Position::middle,
                                Position::last};
  for (std::uint32_t psn = 0; psn < 4; ++psn) bench.read_response(psn, positions[psn], 256);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{kReadRequest, 16, 513, 0x2000, true}}));
  EXPECT_FALSE(bench.requester.failed());
}

TEST(RequesterRead, LargeReadIsSplitWithOneOutstandingToo) {
  RequesterBench bench({.max_rd_atomic = 1, .window_bytes_max = 16 * 768});
  bench.post(Operation::read, 5 * 256, 0x1000);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{kReadRequest, 0, 1024, 0x1000, true}}));
  const Position positions[] = {Position::first, Position::middle, Position::middle,
                                Position::last};
  for (std::uint32_t psn = 0; psn < 4; ++psn) bench.read_response(psn, positions[psn], 256);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{kReadRequest, 4, 256, 0x1400, true}}));
  bench.read_response(4, Position::only, 256);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
}

TEST(RequesterRead, GapInResponsesAsksForTheRestOnce) {
  RequesterBench bench;
  bench.post(Operation::read, 4 * 256 + 7, 0x1000);
  bench.transmit();
  bench.read_response(0, Position::first, 256);
  bench.read_response(2, Position::middle, 256);  // 1 was lost.
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{kReadRequest, 1, 775, 0x1100, true}}));
  bench.read_response(3, Position::middle, 256);  // Still responses to the first request.
  bench.read_response(4, Position::last, 7);
  EXPECT_TRUE(bench.transmit().empty());
  // The answer to the repetition begins with "first".
  bench.read_response(1, Position::first, 256);
  bench.read_response(2, Position::middle, 256);
  bench.read_response(3, Position::middle, 256);
  bench.read_response(4, Position::last, 7);
  EXPECT_EQ(bench.placed().size(), 5);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
}

TEST(RequesterRead, RepeatedRequestKeepsTheEndOfTheFirst) {
  RequesterBench bench({.max_rd_atomic = 8, .window_bytes_max = 16 * 768});
  bench.post(Operation::read, 8 * 256, 0x1000);
  bench.transmit();
  bench.read_response(0, Position::first, 256);
  bench.read_response(4, Position::first, 256);
  // Two requests again, and the loss has halved the window.
  const auto again = bench.transmit();
  ASSERT_EQ(again.size(), 2);
  EXPECT_EQ(again[0], (Sent{kReadRequest, 1, 768, 0x1100, true}));
  EXPECT_EQ(again[1], (Sent{kReadRequest, 4, 1024, 0x1400, true}));
}

TEST(RequesterRead, AcknowledgementBehindAnUnansweredReadAsksAgain) {
  RequesterBench bench;
  bench.post(Operation::read, 100);
  bench.post(Operation::send, 10);
  bench.transmit();
  bench.ack(1);
  EXPECT_TRUE(bench.ended().empty());
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  bench.read_response(0, Position::only, 100);
  bench.ack(1);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}, {1, Status::success}}));
}

TEST(RequesterRead, LostAtomicResponseIsAskedForAgain) {
  RequesterBench bench({.max_rd_atomic = 2});
  bench.post(Operation::fetch_and_add, 8);
  bench.post(Operation::fetch_and_add, 8);
  bench.transmit();
  bench.atomic_response(1, 2);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  bench.atomic_response(0, 1);
  bench.atomic_response(1, 2);
  const auto atomics = bench.atomics();
  ASSERT_EQ(atomics.size(), 2);
  EXPECT_EQ(atomics[0].original, 1);
  EXPECT_EQ(atomics[1].original, 2);
}

TEST(RequesterRead, FailureNakBehindAnUnansweredReadDoesNotFailTheRead) {
  RequesterBench bench;
  bench.post(Operation::read, 100);
  bench.post(Operation::write, 10);
  bench.transmit();
  bench.nak(1, wire::NakCode::remote_access_error);
  EXPECT_FALSE(bench.requester.failed());
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  bench.read_response(0, Position::only, 100);
  bench.nak(1, wire::NakCode::remote_access_error);
  EXPECT_EQ(bench.ended(),
            (std::vector<Ended>{{0, Status::success}, {1, Status::remote_access_error}}));
}

class BadResponse : public testing::Test {
 protected:
  RequesterBench bench{{.max_rd_atomic = 4}};
  void expect_refused() {
    EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::bad_response}}));
    EXPECT_EQ(bench.failure, Status::bad_response);
    EXPECT_TRUE(bench.placed().empty());
    EXPECT_TRUE(bench.atomics().empty());
  }
};

TEST_F(BadResponse, PacketBeforeTheLastIsNotFull) {
  bench.post(Operation::read, 600);
  bench.transmit();
  bench.read_response(0, Position::first, 255);
  expect_refused();
}
TEST_F(BadResponse, LastIsTooLong) {
  bench.post(Operation::read, 100);
  bench.transmit();
  bench.read_response(0, Position::only, 101);
  expect_refused();
}
TEST_F(BadResponse, LastWhereMoreIsDue) {
  bench.post(Operation::read, 600);
  bench.transmit();
  bench.read_response(0, Position::only, 256);
  expect_refused();
}
TEST_F(BadResponse, MiddleWhereTheFirstIsDue) {
  bench.post(Operation::read, 600);
  bench.transmit();
  bench.read_response(0, Position::middle, 256);
  expect_refused();
}
TEST_F(BadResponse, MiddleWhereTheLastIsDue) {
  bench.post(Operation::read, 100);
  bench.transmit();
  bench.read_response(0, Position::middle, 100);
  expect_refused();
}
TEST_F(BadResponse, ReadResponseToASend) {
  bench.post(Operation::send, 100);
  bench.transmit();
  bench.read_response(0, Position::only, 100);
  expect_refused();
}
TEST_F(BadResponse, AtomicResponseToARead) {
  bench.post(Operation::read, 8);
  bench.transmit();
  bench.atomic_response(0, 1);
  expect_refused();
}
TEST_F(BadResponse, ReadResponseToAnAtomic) {
  bench.post(Operation::fetch_and_add, 8);
  bench.transmit();
  bench.read_response(0, Position::only, 8);
  expect_refused();
}
TEST_F(BadResponse, ResponseThatSaysNak) {
  bench.post(Operation::read, 8);
  bench.transmit();
  bench.read_response(0, Position::only, 8,
                      wire::Syndrome::nak(wire::NakCode::remote_access_error));
  expect_refused();
}

}  // namespace
}  // namespace verbatim::transport
