#include <cstdint>

#include "adapter/infiniband_test_util.h"

/// Automatic path migration (IBA 17.2.8) of two adapters, whose ports have two
/// LIDs: the paths between the first ones and between the second ones.
namespace verbatim::adapter {
namespace {

using transport::PathMigrationState;
using State = PathMigrationState;

struct PathMigrationPair : testing::Test {
  explicit PathMigrationPair(MemoryLink::Ends ends = MemoryLink::make(1 << 20))
      : left_link(*ends.first),
        right_link(*ends.second),
        a(1 << 14, InfinibandEnd{.gid = gid_with(1),
                                 .link = std::move(ends.first),
                                 .lids = {.base = Lid{4}, .lmc = 1}}),
        b(2 << 14, InfinibandEnd{.gid = gid_with(2),
                                 .link = std::move(ends.second),
                                 .lids = {.base = Lid{8}, .lmc = 1}}) {}

  void connect(QpType type) {
    left = std::make_unique<Side>(a, type);
    right = std::make_unique<Side>(b, type);
    for (Side* const side : {left.get(), right.get()}) {
      side->has_grh = false;
      side->timeout = 8;  // 1 ms.
    }
    left->connect(*right, Mtu::k4096, 0);
    right->connect(*left, Mtu::k4096, 0);
  }
  /// `path_bits` of the alternate path, at both ends.
  static Result<void> rearm(Side& side, const Side& peer, std::uint8_t path_bits = 1) {
    QueuePairAttributes attributes;
    attributes.alternate = {.address = side.vector_to(peer, 0), .port = 1, .timeout = 8};
    attributes.alternate.address.dlid = peer.node.adapter->port().lids().with(path_bits);
    attributes.alternate.address.path_bits = path_bits;
    attributes.path_migration = State::rearm;
    return side.qp->modify(attributes, kAlternatePath | kPathMigrationState);
  }
  void rearm_both() {
    ASSERT_TRUE(rearm(*left, *right));
    ASSERT_TRUE(rearm(*right, *left));
  }
  /// A message each way, which tells each end the state of the other one.
  void exchange() {
    for (auto [from, to] : {std::pair{left.get(), right.get()}, {right.get(), left.get()}}) {
      const Segment receive = to->segment(0, 100);
      ASSERT_EQ(0, to->qp->post_receive(9, std::span(&receive, 1)));
      ASSERT_EQ(0, from->post(Operation::send, from->segment(0, 100)));
      EXPECT_EQ(Status::success, to->next().status);
      EXPECT_EQ(Status::success, from->next().status);
    }
  }
  void expect_states(State of_left, State of_right) const {
    EXPECT_EQ(left->qp->query().path_migration, of_left);
    EXPECT_EQ(right->qp->query().path_migration, of_right);
  }
  static Result<void> migrate(Side& side) {
    QueuePairAttributes attributes;
    attributes.path_migration = State::migrated;
    return side.qp->modify(attributes, kPathMigrationState);
  }
  static void expect_on_second_path(Side& side, const Side& peer) {
    const QueuePairAttributes now = side.qp->query();
    EXPECT_EQ(now.address.dlid, peer.node.adapter->port().lids().with(1));
    EXPECT_EQ(now.alternate.address.dlid, peer.node.adapter->port().lids().base);
    EXPECT_EQ(side.events.wait()->type, AsyncEventType::path_migrated);
  }

  MemoryLink& left_link;
  MemoryLink& right_link;
  TestNode a, b;
  std::unique_ptr<Side> left, right;
};

struct PathMigration : PathMigrationPair, testing::WithParamInterface<QpType> {};

TEST_P(PathMigration, ByRequestThePeerFollows) {
  connect(GetParam());
  expect_states(State::migrated, State::migrated);
  rearm_both();
  expect_states(State::rearm, State::rearm);
  exchange();
  exchange();
  expect_states(State::armed, State::armed);
  ASSERT_TRUE(migrate(*left));
  left_link.cut(Lid{8});
  exchange();
  right_link.cut(Lid{4});
  exchange();
  expect_states(State::migrated, State::migrated);
  expect_on_second_path(*left, *right);
  expect_on_second_path(*right, *left);
}

INSTANTIATE_TEST_SUITE_P(RcAndUc, PathMigration, testing::Values(QpType::rc, QpType::uc));

TEST_F(PathMigrationPair, WhenTheRetriesAreExhausted) {
  connect(QpType::rc);
  rearm_both();
  exchange();
  exchange();
  left_link.cut(Lid{8});
  right_link.cut(Lid{4});
  exchange();
  expect_states(State::migrated, State::migrated);
  expect_on_second_path(*left, *right);
  expect_on_second_path(*right, *left);
}

TEST_F(PathMigrationPair, AfterwardsTheFirstPathIsArmedAgain) {
  connect(QpType::rc);
  rearm_both();
  exchange();
  exchange();
  ASSERT_TRUE(migrate(*left));
  exchange();
  ASSERT_TRUE(rearm(*left, *right, 0));
  ASSERT_TRUE(rearm(*right, *left, 0));
  exchange();
  exchange();
  expect_states(State::armed, State::armed);
}

/// The paths that the two ends have loaded differ: one end has the second path, the other end the
/// path that both use.
struct PathMigrationMismatch : PathMigrationPair {
  PathMigrationMismatch() {
    connect(QpType::uc);
    EXPECT_TRUE(rearm(*left, *right, 1));
    EXPECT_TRUE(rearm(*right, *left, 0));
    exchange();
    exchange();
    expect_states(State::armed, State::armed);
  }
  /// `from` migrates and sends a message, which the other end does not take.
  static void expect_error(Side& from, Side& to) {
    ASSERT_TRUE(migrate(from));
    const Segment receive = to.segment(0, 100);
    ASSERT_EQ(0, to.qp->post_receive(9, std::span(&receive, 1)));
    ASSERT_EQ(0, from.post(Operation::send, from.segment(0, 100)));
    ASSERT_EQ(Status::success, from.next().status);
    EXPECT_EQ(to.events.wait()->type, AsyncEventType::path_migration_error);
    EXPECT_EQ(to.qp->query().path_migration, State::armed);
    EXPECT_EQ(from.qp->query().path_migration, State::migrated);
  }
};

TEST_F(PathMigrationMismatch, AMigratedPeerOnTheOldPathIsAnError) { expect_error(*right, *left); }

TEST_F(PathMigrationMismatch, AMigratedPeerOnAnUnknownPathIsAnError) {
  expect_error(*left, *right);
}

TEST_F(PathMigrationPair, OnlyStatesThatCanFollowAreTaken) {
  connect(QpType::rc);
  const auto code = [&](State wanted) {
    QueuePairAttributes attributes;
    attributes.path_migration = wanted;
    const auto set = left->qp->modify(attributes, kPathMigrationState);
    return set ? 0 : set.error().code;
  };
  EXPECT_EQ(code(State::migrated), 0);
  EXPECT_EQ(code(State::rearm), EINVAL) << "there is no alternate path";
  EXPECT_EQ(code(State::armed), EINVAL);
  ASSERT_TRUE(rearm(*left, *right));
  EXPECT_EQ(code(State::migrated), EINVAL) << "it is not armed";
}

TEST(PathMigrationOfRoce, IsNotSupported) {
  TestNode node(1, 1 << 14);
  Side side(node, QpType::rc);
  Side peer(node, QpType::rc);
  side.connect(peer);
  QueuePairAttributes attributes;
  attributes.path_migration = State::rearm;
  EXPECT_EQ(side.qp->modify(attributes, kPathMigrationState).error().code, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbatim::adapter
