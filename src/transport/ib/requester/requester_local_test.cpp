#include <gtest/gtest.h>

#include "transport/ib/requester/requester_test_util.h"

/// Local operations (bind, local invalidate) between packets, SEND with invalidate, FLUSH and
/// ATOMIC WRITE.
namespace verbatim::transport {
namespace {

using wire::Position;
using Psns = std::vector<std::uint32_t>;

TEST(RequesterLocal, WaitsForItsTurnAndTakesNoPsn) {
  RequesterBench bench;
  bench.post(Operation::send, 10);
  bench.post(Operation::bind_window, 0);
  bench.post(Operation::send, 10);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0}));
  EXPECT_EQ(bench.requester.poll_local(), Slot{1});
  EXPECT_EQ(bench.requester.poll_local(), std::nullopt);
  EXPECT_EQ(bench.transmit_psns(), (Psns{1}));
  EXPECT_TRUE(bench.ended().empty());
  bench.ack(1);
  EXPECT_EQ(bench.ended(),
            (std::vector<Ended>{{0, Status::success}, {1, Status::success}, {2, Status::success}}));
}

TEST(RequesterLocal, CompletesAtOnceWhereNothingIsBeforeIt) {
  RequesterBench bench;
  bench.post(Operation::local_invalidate, 0);
  bench.post(Operation::local_invalidate, 0);
  EXPECT_TRUE(bench.transmit().empty());
  ASSERT_EQ(bench.requester.poll_local(), Slot{0});
  ASSERT_EQ(bench.requester.poll_local(), Slot{1});
  bench.collect_after_transmit();
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}, {1, Status::success}}));
}

TEST(RequesterLocal, FenceWaitsForReads) {
  RequesterBench bench;
  bench.post(Operation::read, 10);
  bench.post(Operation::local_invalidate, 0, 0, true);
  bench.transmit();
  EXPECT_EQ(bench.requester.poll_local(), std::nullopt);
  bench.read_response(0, Position::only, 10);
  EXPECT_EQ(bench.requester.poll_local(), Slot{1});
}

TEST(RequesterLocal, IsNotCarriedOutAgainAfterALoss) {
  RequesterBench bench;
  bench.post(Operation::send, 10);
  bench.post(Operation::bind_window, 0);
  bench.post(Operation::send, 10);
  bench.transmit();
  ASSERT_EQ(bench.requester.poll_local(), Slot{1});
  bench.transmit();
  bench.nak(0, wire::NakCode::psn_sequence_error);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  EXPECT_EQ(bench.requester.poll_local(), std::nullopt);
  bench.ack(1);
  EXPECT_EQ(bench.ended().size(), 3);
}

TEST(RequesterLocal, FailureEndsWithItsStatusAfterThoseBeforeIt) {
  RequesterBench bench;
  bench.post(Operation::send, 10);
  bench.post(Operation::bind_window, 0);
  bench.post(Operation::send, 10);
  bench.transmit();
  ASSERT_EQ(bench.requester.poll_local(), Slot{1});
  bench.local_error(1, Status::memory_window_bind_error);
  EXPECT_TRUE(bench.transmit().empty());
  EXPECT_TRUE(bench.ended().empty());
  bench.ack(0);
  EXPECT_EQ(bench.ended(),
            (std::vector<Ended>{{0, Status::success}, {1, Status::memory_window_bind_error}}));
  EXPECT_EQ(bench.failure, Status::memory_window_bind_error);
  bench.flush();
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{2, Status::flushed}}));
}

TEST(RequesterLocal, ProbeRepeatsThePacketBeforeIt) {
  RequesterBench bench;
  bench.post(Operation::send, 10);
  bench.post(Operation::bind_window, 0);
  bench.transmit();
  ASSERT_EQ(bench.requester.poll_local(), Slot{1});
  bench.expire();
  EXPECT_EQ(bench.transmit_psns(), (Psns{0}));
}

TEST(RequesterSend, InvalidateIsInTheLastPacketAlone) {
  RequesterBench bench;
  bench.post(Operation::send_with_invalidate, 300);
  bench.post(Operation::send_with_invalidate, 8);
  const auto packets = bench.transmit_packets();
  ASSERT_EQ(packets.size(), 3);
  EXPECT_EQ(packets[0].headers.bth.opcode, opcode(0x00));
  EXPECT_EQ(packets[1].headers.bth.opcode, opcode(0x16));
  EXPECT_EQ(packets[2].headers.bth.opcode, opcode(0x17));
  EXPECT_EQ(packets[1].headers.invalidate_key, MemoryKey{7});
}

TEST(RequesterRead, AtomicWriteSendsEightBytesAndIsEndedByAnEmptyResponse) {
  RequesterBench bench({.max_rd_atomic = 1});
  bench.post(Operation::atomic_write, 8, 0x2000);
  bench.post(Operation::atomic_write, 8, 0x2000);
  const auto packets = bench.transmit_packets();
  ASSERT_EQ(packets.size(), 1) << "max_rd_atomic bounds them";
  EXPECT_EQ(packets[0].headers.bth.opcode, opcode(0x1d));
  EXPECT_EQ(packets[0].headers.reth, (wire::Reth{0x2000, MemoryKey{7}, 8}));
  EXPECT_EQ(packets[0].payload.length, 8);
  bench.read_response(0, Position::only, 0);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
  EXPECT_EQ(bench.transmit().size(), 1);
  bench.ack(1);
  EXPECT_TRUE(bench.ended().empty()) << "an acknowledgement is no response";
}

TEST(RequesterRead, FlushNamesItsRange) {
  RequesterBench bench;
  bench.requester.post({.operation = Operation::flush,
                        .remote_address = 0x3000,
                        .remote_key = MemoryKey{7},
                        .flush_bytes = 0x80000000,
                        .flush = {wire::Feth::kGlobal, wire::Feth::Selectivity::region}});
  const auto packets = bench.transmit_packets();
  ASSERT_EQ(packets.size(), 1);
  EXPECT_EQ(packets[0].headers.bth.opcode, opcode(0x1c));
  EXPECT_EQ(packets[0].headers.reth, (wire::Reth{0x3000, MemoryKey{7}, 0x80000000}));
  EXPECT_EQ(packets[0].headers.feth,
            (wire::Feth{wire::Feth::kGlobal, wire::Feth::Selectivity::region}));
  EXPECT_EQ(packets[0].payload.length, 0);
  bench.read_response(0, Position::only, 0);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
}

TEST(RequesterRead, ResponseWithBytesToAFlushBreaksTheRules) {
  RequesterBench bench;
  bench.post(Operation::flush, 0);
  bench.transmit();
  bench.read_response(0, Position::only, 4);
  EXPECT_EQ(bench.failure, Status::bad_response);
}

}  // namespace
}  // namespace verbatim::transport
