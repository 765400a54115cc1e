#include <array>
#include <cerrno>
#include <cstdint>

#include "adapter/infiniband_test_util.h"

/// Two adapters with two InfiniBand ports each. Port 1 of both is in one subnet, port 2 in another,
/// and the subnets' managers have given out the same LIDs.
namespace verbatim::adapter {
namespace {

struct TwoPorts : testing::Test {
  TwoPorts() : TwoPorts(MemoryLink::make(3 * 4400), MemoryLink::make(3 * 4400)) {}
  TwoPorts(MemoryLink::Ends first, MemoryLink::Ends second)
      : right_first(*first.second),
        right_second(*second.second),
        a(1 << 14, end_of(gid_with(1), Lid{4}, std::move(first.first)),
          end_of(gid_with(2), Lid{4}, std::move(second.first))),
        b(2 << 14, end_of(gid_with(3), Lid{8}, std::move(first.second)),
          end_of(gid_with(4), Lid{8}, std::move(second.second))) {}
  MemoryLink& right_first;
  MemoryLink& right_second;
  TestNode a, b;

  static InfinibandEnd end_of(const Gid& gid, Lid lid, std::unique_ptr<link::Link> link) {
    return {.gid = gid, .link = std::move(link), .lids = {.base = lid}};
  }
  static std::uint64_t write(Side& left, Side& right, std::uint32_t length = 64) {
    EXPECT_EQ(0, left.post(Operation::write, left.segment(0, length), &right));
    return raw(left.next().status);
  }
};

TEST_F(TwoPorts, PacketsTakeThePortOfTheirQueuePair) {
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.port = right.port = 2;
  left.timeout = 0;
  connect(left, right);
  right_first.hold();  // Nothing comes by port 1.
  EXPECT_EQ(write(left, right), raw(Status::success));
  EXPECT_EQ(left.qp->query().port, 2);
  EXPECT_EQ(left.qp->query().address.port, 2);
}

TEST_F(TwoPorts, ASenderRestsUntilItsPortHasRoom) {
  constexpr std::uint32_t kLength = 200'000;
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.port = right.port = 2;
  left.timeout = 0;  // Nothing but credits brings it to send again.
  connect(left, right);
  right_second.hold();
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, kLength), &right));
  EXPECT_EQ(left.qp->counters().packets_sent.value(), 3u);
  right_second.let_go();
  EXPECT_EQ(Status::success, left.next().status);
}

TEST_F(TwoPorts, AConnectionDoesNotHearItsPeersLidByTheOtherPort) {
  Side left(a, QpType::uc), right(b, QpType::uc);
  connect(left, right);
  Side stranger(a, QpType::uc);
  stranger.port = 2;
  stranger.connect(right, Mtu::k4096, 0);
  EXPECT_EQ(write(stranger, right), raw(Status::success));
  const auto dropped = [this] {
    return b.adapter->arena().header().port_counters.dropped_no_qp.value();
  };
  EXPECT_TRUE(becomes(1, dropped));
  EXPECT_EQ(right.qp->counters().packets_received.value(), 1u) << "it came, and was refused";
}

TEST_F(TwoPorts, EachHasAPKeyTable) {
  b.adapter->set_pkeys(b.adapter->port(2), std::array{PKey{0x8001}, PKey{0x8002}});
  Side left(a, QpType::rc), right(b, QpType::rc);
  connect(left, right);
  EXPECT_EQ(write(left, right), raw(Status::success));
  Side other(b, QpType::rc);
  QueuePairAttributes wanted{.state = QpState::init, .pkey_index = 1};
  constexpr std::uint32_t kInit = kState | kPKeyIndex | kPort | kAccessFlags;
  EXPECT_EQ(other.qp->modify(wanted, kInit).error().code, EINVAL);
  wanted.port = 2;
  EXPECT_TRUE(other.qp->modify(wanted, kInit));
}

TEST_F(TwoPorts, AConnectionMigratesToTheOtherPort) {
  Side left(a, QpType::rc), right(b, QpType::rc);
  connect(left, right);
  for (auto [side, peer] : {std::pair{&left, &right}, {&right, &left}}) {
    QueuePairAttributes wanted{.alternate = {.address = side->vector_to(*peer, 0), .port = 2},
                               .path_migration = transport::PathMigrationState::rearm};
    ASSERT_TRUE(side->qp->modify(wanted, kAlternatePath | kPathMigrationState));
  }
  EXPECT_EQ(write(left, right), raw(Status::success));
  EXPECT_EQ(write(left, right), raw(Status::success));
  ASSERT_TRUE(left.qp->modify({.path_migration = transport::PathMigrationState::migrated},
                              kPathMigrationState));
  right_first.hold();  // Nothing comes by port 1.
  EXPECT_EQ(write(left, right), raw(Status::success));
  EXPECT_EQ(left.qp->query().port, 2);
  EXPECT_EQ(right.qp->query().port, 2);
  EXPECT_EQ(right.qp->query().alternate.port, 1);
}

TEST_F(TwoPorts, APortThatThereIsNotIsRefused) {
  Side side(a, QpType::rc);
  for (const std::uint8_t port : std::array<std::uint8_t, 2>{0, 3}) {
    EXPECT_EQ(a.adapter->resolve({.dlid = Lid{8}, .port = port, .is_global = false}).error().code,
              EINVAL);
    EXPECT_EQ(side.qp
                  ->modify({.state = QpState::init, .port = port},
                           kState | kPKeyIndex | kPort | kAccessFlags)
                  .error()
                  .code,
              EINVAL);
  }
}

TEST_F(TwoPorts, ADatagramLeavesByItsAddressHandlesPortOrFails) {
  Side left(a, QpType::ud), right(b, QpType::ud);
  left.port = right.port = 2;
  start_datagrams(left);
  start_datagrams(right);
  const Segment receive = right.segment(0, 1000);
  ASSERT_EQ(0, right.qp->post_receive(7, std::span(&receive, 1)));
  const auto destination = a.adapter->resolve(left.vector_to(right, 0));
  ASSERT_TRUE(destination) << destination.error().text;
  ASSERT_EQ(0, send_datagram(left, *destination, right.qp->number(), left.segment(0, 64)));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(right.next().wr_id, 7u);

  left.port = 1;  // Of the address vector alone.
  const auto other = a.adapter->resolve(left.vector_to(right, 0));
  ASSERT_TRUE(other);
  ASSERT_EQ(0, send_datagram(left, *other, right.qp->number(), left.segment(0, 64)));
  EXPECT_EQ(Status::local_qp_operation_error, left.next().status);
}

TEST_F(TwoPorts, AGroupIsJoinedByTheQueuePairsPort) {
  const Gid group{{0xff, 0x12}};
  const Lid lid{0xc001};
  Side first(a, QpType::ud), second(a, QpType::ud), member(b, QpType::ud);
  second.port = member.port = 2;
  for (Side* const side : {&first, &second, &member}) start_datagrams(*side);
  ASSERT_TRUE(b.adapter->attach_multicast(*member.qp, {group, lid}));
  for (const std::uint64_t id : {1, 2}) {
    const Segment receive = member.segment(0, 1000);
    ASSERT_EQ(0, member.qp->post_receive(id, std::span(&receive, 1)));
  }
  std::uint32_t length = 60;
  for (Side* const side : {&first, &second}) {
    const auto destination =
        a.adapter->resolve({.dest_gid = group, .dlid = lid, .port = side->port});
    ASSERT_TRUE(destination);
    ASSERT_EQ(0, send_datagram(*side, *destination, kMulticastQpn, side->segment(0, length)));
    EXPECT_EQ(Status::success, side->next().status);
    length += 40;
  }
  const Completion received = member.next();
  EXPECT_EQ(received.wr_id, 1u);
  EXPECT_EQ(received.byte_count, 140u) << "the GRH and the datagram of port 2";
  ASSERT_TRUE(member.qp->modify({.state = QpState::reset}, kState));  // It has port 1 again.
  EXPECT_TRUE(b.adapter->detach_multicast(*member.qp, {group, lid}));
}

}  // namespace
}  // namespace verbatim::adapter
