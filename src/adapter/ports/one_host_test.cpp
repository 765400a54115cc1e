#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <tuple>
#include <vector>

#include "adapter/infiniband_test_util.h"
#include "wire/net/grh.h"

/// Two programs of one host of a fabric: what one sends to a LID of their port is executed in the
/// memory of the other.
namespace verbatim::adapter {
namespace {

constexpr port::LidRange kLids{.base = Lid{4}, .lmc = 2};
constexpr PKey kFull{0x8001}, kLimited{0x0001}, kOther{0x8002};

struct InfinibandHost : testing::Test {
  explicit InfinibandHost(TestNode::Path path = TestNode::Path::direct,
                          MemoryLink::Ends ends = MemoryLink::make(3 * 4400))
      : a(path, 1 << 14, end(std::move(ends.first))),
        b(path, 2 << 14, end(std::move(ends.second))) {}
  std::mutex lock;  // Protects `reports`.
  std::vector<wire::BadKeyDetails> reports;
  std::vector<wire::TrapNumber> traps;  // The same ones'.
  TestNode a, b;

  void report(wire::TrapNumber trap, const wire::BadKeyDetails& bad) {
    const std::lock_guard guard(lock);
    reports.push_back(bad);
    traps.push_back(trap);
  }
  InfinibandEnd end(std::unique_ptr<link::Link> link) {
    return {.gid = gid_with(1),
            .link = std::move(link),
            .lids = kLids,
            .report_bad_key = [this](auto trap, const auto& bad) { report(trap, bad); }};
  }
  static void set_pkeys(TestNode& node, std::span<const PKey> pkeys) {
    node.adapter->set_pkeys(node.adapter->port(), pkeys);
  }
  /// The status of a WRITE of 64 bytes.
  static Status write(Side& left, const Side& right) {
    EXPECT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
    return left.next().status;
  }
  static std::uint64_t packets(const TestNode& node) {
    return node.adapter->arena().header().port_counters.packets_received.value();
  }
  static std::uint64_t violations(const TestNode& node) {
    return node.adapter->arena().header().port_counters.pkey_violations.value();
  }
  static void set_active(TestNode& node, bool is_active) {
    node.adapter->port_events().change(node.adapter->port(), {.is_active = is_active});
    node.adapter->follow_ports();
  }
};

struct InfinibandHostConnected : InfinibandHost, testing::WithParamInterface<bool> {};

TEST_P(InfinibandHostConnected, RequestsAreExecutedInThePeersMemory) {
  constexpr std::uint32_t kLength = 200'000;
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.has_grh = right.has_grh = GetParam();
  connect(left, right);
  std::ranges::fill(left.memory, std::byte{7});
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, kLength), &right));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(kLength, std::ranges::count(right.memory, std::byte{7}));
  ASSERT_EQ(0, right.qp->post_receive(9, {}));
  ASSERT_EQ(0, left.post(Operation::write_with_immediate, left.segment(0, 8), &right));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(9u, right.next().wr_id);
  EXPECT_EQ(0u, packets(a) + packets(b));
  EXPECT_EQ(0u, left.qp->counters().packets_sent.value());
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutGrh, InfinibandHostConnected, testing::Bool());

TEST_F(InfinibandHost, AnotherPortsLidTakesPackets) {
  Side left(a, QpType::rc), right(b, QpType::rc);
  for (TestNode* const node : {&a, &b}) {
    node->adapter->port().set_lids({.base = Lid{static_cast<std::uint16_t>(node == &a ? 8 : 16)}});
  }
  connect(left, right);  // By the LIDs of before.
  EXPECT_EQ(0, a.questions + b.questions);
}

TEST_F(InfinibandHost, ALimitedMemberReachesFullMembersAlone) {
  for (const auto& [sender, receiver, wanted] : {std::tuple{kFull, kFull, Status::success},
                                                 {kFull, kLimited, Status::success},
                                                 {kLimited, kFull, Status::success},
                                                 {kLimited, kLimited, Status::retry_exceeded},
                                                 {kOther, kFull, Status::retry_exceeded}}) {
    set_pkeys(a, std::array{sender});
    set_pkeys(b, std::array{receiver});
    const std::uint64_t before = violations(b);
    reports.clear();
    Side left(a, QpType::rc), right(b, QpType::rc);
    left.timeout = 1;
    connect(left, right);
    EXPECT_EQ(wanted, write(left, right)) << raw(sender) << " to " << raw(receiver);
    const bool is_refused = wanted != Status::success;
    EXPECT_EQ(is_refused ? 8u : 0u, violations(b) - before) << "the request and its repetitions";
    EXPECT_EQ(is_refused ? 8u : 0u, reports.size());
    for (const wire::BadKeyDetails& report : reports) EXPECT_EQ(raw(sender), report.key);
  }
  EXPECT_EQ(0u, packets(a) + packets(b));
}

TEST_F(InfinibandHost, QueuePairsFollowTheirPKeys) {
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.timeout = 1;
  connect(left, right);
  EXPECT_EQ(Status::success, write(left, right));
  for (TestNode* const node : {&a, &b}) set_pkeys(*node, std::array{kFull});
  EXPECT_EQ(Status::success, write(left, right));
  set_pkeys(b, std::array{kOther});
  EXPECT_EQ(Status::retry_exceeded, write(left, right));
}

TEST_F(InfinibandHost, NothingIsAnsweredUntilThePortIsActiveAgain) {
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.timeout = 0;  // For ever.
  connect(left, right);
  set_active(b, false);
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
  Completion none;
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(0, a.adapter->poll(*left.cq, std::span(&none, 1)));
  set_active(b, true);
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(0u, violations(b));
}

TEST_F(InfinibandHost, AConnectionEndsWithItsLid) {
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.timeout = 1;
  connect(left, right);
  b.adapter->port().set_lids({.base = Lid{32}});
  b.adapter->follow_ports();
  EXPECT_EQ(Status::retry_exceeded, write(left, right));
}

struct InfinibandHostDatagrams : InfinibandHost, testing::WithParamInterface<TestNode::Path> {
  InfinibandHostDatagrams() : InfinibandHost(GetParam()) {}
  static void send(Side& side, const Side& to, QKey qkey = QKey{0x1234}) {
    port::AddressVector vector = side.vector_to(to, 0);
    vector.dlid = Lid{4 + 1};
    vector.path_bits = 3;
    vector.service_level = 5;
    const Destination destination = side.node.adapter->resolve(vector).value();
    const Segment local = side.segment(0, 100);
    ASSERT_EQ(0, side.qp->post_send({.wr_id = ++side.posted,
                                     .request = {.operation = Operation::send, .length = 100},
                                     .segments = std::span(&local, 1),
                                     .flags = kPostSignaled,
                                     .destination = &destination,
                                     .remote_qpn = to.qp->number(),
                                     .remote_qkey = qkey}));
    EXPECT_EQ(Status::success, side.next().status);
  }
  static void post_receive(Side& side) {
    const Segment receive = side.segment(0, 200);
    ASSERT_EQ(0, side.qp->post_receive(1, std::span(&receive, 1)));
  }
};

TEST_P(InfinibandHostDatagrams, SayTheSameOnBothPaths) {
  for (TestNode* const node : {&a, &b}) set_pkeys(*node, std::array{kOther, kFull});
  for (const bool has_grh : {false, true}) {
    Side left(a, QpType::ud), right(b, QpType::ud);
    left.pkey_index = right.pkey_index = 1;
    left.has_grh = has_grh;
    std::ranges::fill(left.memory, std::byte{7});
    std::ranges::fill(right.memory, std::byte{9});
    start_datagrams(left);
    start_datagrams(right);
    post_receive(right);
    send(left, right);
    const Completion received = right.next();
    ASSERT_EQ(Status::success, received.status);
    EXPECT_EQ(140u, received.byte_count);
    EXPECT_EQ(left.qp->number().value(), received.source_qpn);
    EXPECT_EQ(4 + 3, received.source_lid);
    EXPECT_EQ(1, received.path_bits);
    EXPECT_EQ(5, received.service_level);
    EXPECT_EQ(1, received.pkey_index);
    EXPECT_EQ(has_grh ? kCompletionGrh : 0, received.flags);
    EXPECT_EQ(100, std::ranges::count(right.memory, std::byte{7}));
    if (has_grh) {
      const auto grh = wire::decode_grh(std::span(right.memory).first<wire::Grh::kSize>());
      ASSERT_TRUE(grh);
      EXPECT_EQ(gid_with(1), grh->source);
    } else {
      EXPECT_EQ(std::byte{9}, right.memory[0]) << "the GRH's place stays as it was";
    }
  }
  EXPECT_EQ(packets(b) == 0, GetParam() == TestNode::Path::direct);
}

TEST_P(InfinibandHostDatagrams, OfAnotherPartitionOrQKeyAreDroppedAndCounted) {
  set_pkeys(a, std::array{kFull, kOther});
  set_pkeys(b, std::array{kFull});
  Side left(a, QpType::ud), stranger(a, QpType::ud), right(b, QpType::ud);
  stranger.pkey_index = 1;
  for (Side* const side : {&left, &stranger, &right}) start_datagrams(*side);
  post_receive(right);
  send(stranger, right);
  send(left, right, QKey{0x4321});
  send(left, right);
  EXPECT_EQ(left.qp->number().value(), right.next().source_qpn);
  EXPECT_EQ(1u, violations(b));
  EXPECT_EQ(1u, b.adapter->arena().header().port_counters.qkey_violations.value());
  const std::lock_guard guard(lock);
  using enum wire::TrapNumber;
  ASSERT_EQ((std::vector{bad_p_key, bad_q_key}), traps);
  wire::BadKeyDetails expected{.source_lid = Lid{4 + 3},
                               .destination_lid = Lid{4 + 1},
                               .key = raw(kOther),
                               .service_level = 5,
                               .source_qpn = stranger.qp->number().value(),
                               .destination_qpn = right.qp->number().value(),
                               .source_gid = gid_with(1),
                               .destination_gid = gid_with(1)};
  EXPECT_EQ(expected, reports[0]);
  expected.key = 0x4321;
  expected.source_qpn = left.qp->number().value();
  EXPECT_EQ(expected, reports[1]);
}

INSTANTIATE_TEST_SUITE_P(OnBothPaths, InfinibandHostDatagrams,
                         testing::Values(TestNode::Path::direct, TestNode::Path::wire));

}  // namespace
}  // namespace verbatim::adapter
