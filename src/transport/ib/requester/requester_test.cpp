#include <gtest/gtest.h>

#include "transport/ib/requester/requester_test_util.h"

/// Packets that the requester sends, and how acknowledgements complete requests.
namespace verbatim::transport {
namespace {

using Psns = std::vector<std::uint32_t>;

class EveryMtu : public testing::TestWithParam<Mtu> {};
INSTANTIATE_TEST_SUITE_P(Requester, EveryMtu,
                         testing::Values(Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096));

TEST_P(EveryMtu, MessageIsCutIntoFullPacketsAndARest) {
  Requester requester(4);
  requester.configure({.first_psn = Psn(5), .path_mtu = GetParam()});
  const std::uint32_t mtu = bytes_of(GetParam());
  requester.post({.operation = Operation::send, .length = 2 * mtu + 3});
  const std::uint32_t lengths[] = {mtu, mtu, 3};
  const wire::Opcode opcodes[] = {opcode(0x00), opcode(0x01), opcode(0x02)};
  OutgoingPacket packet;
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(requester.poll_transmit(0, packet));
    EXPECT_EQ(packet.headers.bth.opcode, opcodes[i]);
    EXPECT_EQ(packet.headers.bth.psn, Psn(5 + i));
    EXPECT_EQ(packet.headers.bth.pad_count, i == 2 ? 1 : 0);
    EXPECT_EQ(packet.headers.bth.ack_request, i == 2);
    EXPECT_EQ(packet.payload.offset, i * mtu);
    EXPECT_EQ(packet.payload.length, lengths[i]);
  }
  EXPECT_FALSE(requester.poll_transmit(0, packet));
}

TEST_P(EveryMtu, FullLastPacketIsNotFollowedByAnEmptyOne) {
  Requester requester(4);
  requester.configure({.path_mtu = GetParam()});
  requester.post({.operation = Operation::write, .length = 2 * bytes_of(GetParam())});
  OutgoingPacket packet;
  EXPECT_TRUE(requester.poll_transmit(0, packet));
  EXPECT_TRUE(requester.poll_transmit(0, packet));
  EXPECT_EQ(packet.headers.bth.opcode, opcode(0x08));
  EXPECT_FALSE(requester.poll_transmit(0, packet));
}

TEST(Requester, Table38OpcodesOfEachOperation) {
  struct Row {
    Operation operation;
    std::uint8_t first, middle, last, only;
  };
  constexpr Row kRows[] = {{Operation::send, 0x00, 0x01, 0x02, 0x04},
                           {Operation::send_with_immediate, 0x00, 0x01, 0x03, 0x05},
                           {Operation::write, 0x06, 0x07, 0x08, 0x0a},
                           {Operation::write_with_immediate, 0x06, 0x07, 0x09, 0x0b}};
  for (const auto service : {wire::Service::rc, wire::Service::uc}) {
    const auto base = static_cast<std::uint8_t>(static_cast<int>(service) << 5);
    for (const Row& row : kRows) {
      RequesterBench bench({.service = service});
      bench.post(row.operation, 600);
      bench.post(row.operation, 6);
      const auto sent = bench.transmit();
      ASSERT_EQ(sent.size(), 4);
      EXPECT_EQ(sent[0].opcode, opcode(base | row.first));
      EXPECT_EQ(sent[1].opcode, opcode(base | row.middle));
      EXPECT_EQ(sent[2].opcode, opcode(base | row.last));
      EXPECT_EQ(sent[3].opcode, opcode(base | row.only));
    }
  }
}

TEST(Requester, ReadAndAtomicHeadersSayWhatIsAsked) {
  RequesterBench bench({.max_rd_atomic = 3});
  bench.requester.post({.operation = Operation::read,
                        .length = 600,
                        .remote_address = 0x77,
                        .remote_key = MemoryKey{9}});
  bench.requester.post({.operation = Operation::compare_and_swap,
                        .length = 8,
                        .remote_address = 0x80,
                        .remote_key = MemoryKey{9},
                        .compare_add = 1,
                        .swap = 2});
  bench.requester.post({.operation = Operation::fetch_and_add,
                        .length = 8,
                        .remote_address = 0x88,
                        .remote_key = MemoryKey{9},
                        .compare_add = 3});
  const auto sent = bench.transmit_packets();
  ASSERT_EQ(sent.size(), 3);
  EXPECT_EQ(sent[0].headers.bth.opcode, opcode(0x0c));
  EXPECT_EQ(sent[0].headers.reth,
            (wire::Reth{.address = 0x77, .key = MemoryKey{9}, .length = 600}));
  EXPECT_EQ(sent[0].payload.from, PayloadSource::From::nothing);
  // The READ takes the PSNs of its three responses.
  EXPECT_EQ(sent[1].headers.bth.psn, Psn(3));
  EXPECT_EQ(sent[1].headers.bth.opcode, opcode(0x13));
  EXPECT_EQ(sent[1].headers.atomic_eth, (wire::AtomicEth{0x80, MemoryKey{9}, 2, 1}));
  EXPECT_EQ(sent[2].headers.bth.opcode, opcode(0x14));
  EXPECT_EQ(sent[2].headers.atomic_eth, (wire::AtomicEth{0x88, MemoryKey{9}, 3, 0}));
}

TEST(Requester, WriteFirstCarriesTheWholeLength) {
  RequesterBench bench;
  bench.post(Operation::write, 600, 0x5000);
  const auto sent = bench.transmit_packets();
  EXPECT_EQ(sent[0].headers.reth,
            (wire::Reth{.address = 0x5000, .key = MemoryKey{7}, .length = 600}));
}

TEST(Requester, MessageWithoutBytesIsOnePacket) {
  for (const auto operation : {Operation::send, Operation::write, Operation::read}) {
    RequesterBench bench;
    bench.post(operation, 0);
    const auto sent = bench.transmit_packets();
    ASSERT_EQ(sent.size(), 1);
    EXPECT_EQ(sent[0].payload.from, PayloadSource::From::nothing);
    EXPECT_EQ(bench.requester.next_psn(), Psn(1));
    if (operation == Operation::read) {
      bench.read_response(0, wire::Position::only, 0);
      EXPECT_TRUE(bench.placed().empty());
    } else {
      bench.ack(0);
    }
    EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
  }
}

TEST(Requester, SolicitedEventIsInTheLastPacketOfWhatTheReceiverSees) {
  for (const auto operation : {Operation::send, Operation::send_with_immediate,
                               Operation::write_with_immediate, Operation::write}) {
    RequesterBench bench;
    bench.requester.post({.operation = operation, .solicited = true, .length = 600});
    const auto sent = bench.transmit_packets();
    EXPECT_FALSE(sent[0].headers.bth.solicited_event);
    EXPECT_FALSE(sent[1].headers.bth.solicited_event);
    EXPECT_EQ(sent[2].headers.bth.solicited_event, operation != Operation::write);
  }
}

TEST(Requester, PsnWraps) {
  RequesterBench bench({.first_psn = Psn(0xfffffe)});
  bench.post(Operation::send, 4 * 256);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0xfffffe, 0xffffff, 0, 1}));
  bench.ack(0);
  EXPECT_TRUE(bench.ended().empty());
  bench.nak(1, wire::NakCode::psn_sequence_error);
  EXPECT_EQ(bench.transmit_psns(), (Psns{1}));
  bench.ack(1);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
}

TEST(Requester, AcknowledgementCompletesAllBeforeInOrder) {
  RequesterBench bench;
  for (int i = 0; i < 4; ++i) bench.post(Operation::send, 10);
  bench.transmit();
  bench.ack(2);
  EXPECT_EQ(bench.ended(),
            (std::vector<Ended>{{0, Status::success}, {1, Status::success}, {2, Status::success}}));
  EXPECT_EQ(bench.requester.outstanding(), 1);
}

TEST(Requester, ManyCompletionsComeInSeveralLists) {
  RequesterBench bench({}, 200);
  for (int i = 0; i < 150; ++i) bench.post(Operation::write, 1);
  bench.transmit();
  bench.ack(149);
  const auto ended = bench.ended();
  ASSERT_EQ(ended.size(), 150);
  for (Slot slot = 0; slot < 150; ++slot) EXPECT_EQ(ended[slot], (Ended{slot, Status::success}));
}

TEST(Requester, OldAndGhostAcknowledgementsMeanNothing) {
  RequesterBench bench;
  bench.post(Operation::send, 10);
  bench.post(Operation::send, 10);
  bench.transmit();
  bench.ack(0);
  bench.ended();
  bench.ack(0);                                      // An old one.
  bench.nak(0, wire::NakCode::remote_access_error);  // An old one.
  bench.ack(2);                                      // Never sent.
  bench.ack(0xffffff);                               // Before the first.
  EXPECT_TRUE(bench.ended().empty());
  EXPECT_TRUE(bench.transmit().empty());
  EXPECT_FALSE(bench.requester.failed());
}

TEST(Requester, QuarterOfTheWindowAsksForAnAcknowledgement) {
  RequesterBench bench({.window_bytes_max = 16 * 768});
  bench.post(Operation::write, 64 * 256);
  const auto sent = bench.transmit();
  ASSERT_EQ(sent.size(), 16);  // The window: payload and 512 bytes a packet.
  for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sent[i].ack_request, i % 4 == 3) << i;
}

TEST(Requester, WindowMovesOnWithAcknowledgements) {
  RequesterBench bench({.window_bytes_max = 4 * 768});
  bench.post(Operation::write, 64 * 256);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1, 2, 3}));
  bench.ack(1);
  EXPECT_EQ(bench.transmit_psns(), (Psns{4, 5}));
}

TEST(Requester, SmallestWindowIsOnePacket) {
  RequesterBench bench({.window_bytes_max = 1});
  bench.post(Operation::write, 3 * 256);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{opcode(0x06), 0, 256, 0, true}}));
  bench.ack(0);
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{opcode(0x07), 1, 256, 256, true}}));
}

TEST(Requester, FencedRequestWaitsForEarlierReadsAndAtomics) {
  RequesterBench bench({.max_rd_atomic = 4});
  bench.post(Operation::read, 100);
  bench.post(Operation::fetch_and_add, 8);
  bench.post(Operation::send, 10, 0, true);
  bench.post(Operation::send, 10);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
  bench.read_response(0, wire::Position::only, 100);
  EXPECT_TRUE(bench.transmit().empty());
  bench.atomic_response(1, 5);
  EXPECT_EQ(bench.transmit_psns(), (Psns{2, 3}));
}

TEST(Requester, UnfencedRequestDoesNotWait) {
  RequesterBench bench;
  bench.post(Operation::read, 100);
  bench.post(Operation::send, 10);
  bench.post(Operation::send, 10, 0, true);
  EXPECT_EQ(bench.transmit_psns(), (Psns{0, 1}));
}

TEST(Requester, UcCompletesWhatItHasSentAndHearsNothing) {
  RequesterBench bench({.service = wire::Service::uc});
  bench.post(Operation::send, 600);
  OutgoingPacket packet;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(bench.requester.poll_transmit(0, packet));
    RequesterEffects effects;
    bench.requester.after_transmit(effects);
    EXPECT_TRUE(effects.list.empty());
  }
  EXPECT_EQ(bench.transmit(), (std::vector<Sent>{{opcode(0x22), 2, 88, 512, false}}));
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::success}}));
  EXPECT_EQ(bench.requester.deadline(), kNever);
  bench.post(Operation::send, 6);
  bench.nak(3, wire::NakCode::remote_access_error);
  EXPECT_FALSE(bench.requester.failed());
}

TEST(Requester, UcPacketWhoseMemoryRefusesFailsItsRequest) {
  RequesterBench bench({.service = wire::Service::uc});
  bench.post(Operation::send, 6);
  OutgoingPacket packet;
  ASSERT_TRUE(bench.requester.poll_transmit(0, packet));
  bench.local_error(0, Status::local_protection_error);
  EXPECT_EQ(bench.ended(), (std::vector<Ended>{{0, Status::local_protection_error}}));
  EXPECT_EQ(bench.failure, Status::local_protection_error);
}

TEST(Requester, AttributesChangeWhileItRuns) {
  RequesterBench bench({.timeout = 10, .max_rd_atomic = 1});
  bench.post(Operation::read, 10);
  bench.post(Operation::read, 10);
  EXPECT_EQ(bench.transmit().size(), 1);
  RequesterConfig config = bench.requester.config();
  config.max_rd_atomic = 2;
  bench.requester.configure(config);
  EXPECT_EQ(bench.transmit_psns(), (Psns{1}));
}

TEST(Requester, ResetForgetsEverything) {
  RequesterBench bench({.first_psn = Psn(7)});
  bench.post(Operation::send, 10);
  bench.transmit();
  bench.requester.reset();
  EXPECT_EQ(bench.requester.outstanding(), 0);
  EXPECT_EQ(bench.requester.deadline(), kNever);
  bench.requester.configure({.first_psn = Psn(9), .path_mtu = Mtu::k256});
  EXPECT_EQ(bench.post(Operation::send, 10), 0);
  EXPECT_EQ(bench.transmit_psns(), (Psns{9}));
}

TEST(Requester, FullAtItsCapacity) {
  RequesterBench bench({}, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(bench.requester.full());
    bench.post(Operation::send, 1);
  }
  EXPECT_TRUE(bench.requester.full());
  bench.transmit();
  bench.ack(0);
  EXPECT_FALSE(bench.requester.full());
}

}  // namespace
}  // namespace verbatim::transport
