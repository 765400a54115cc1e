#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "adapter/infiniband_test_util.h"
#include "wire/net/grh.h"

/// Two adapters with InfiniBand ports, and a lossless link between them that has room for three
/// packets of 4 KiB.
namespace verbatim::adapter {
namespace {

struct InfinibandPair : testing::Test {
  explicit InfinibandPair(MemoryLink::Ends ends = MemoryLink::make(3 * 4400))
      : left_link(*ends.first),
        right_link(*ends.second),
        a(1 << 14, InfinibandEnd{.gid = gid_with(1),
                                 .link = std::move(ends.first),
                                 .lids = {.base = Lid{4}, .lmc = 2}}),
        b(2 << 14,
          InfinibandEnd{.gid = gid_with(2),
                        .link = std::move(ends.second),
                        .lids = {.base = Lid{8}, .lmc = 1},
                        .report_bad_key = [this](auto, const auto& bad) { report(bad); }}) {}
  MemoryLink& left_link;
  MemoryLink& right_link;
  std::mutex lock;  // Protects `reports`, which a thread of B makes.
  std::vector<wire::BadKeyDetails> reports;
  TestNode a, b;

  void report(const wire::BadKeyDetails& bad) {
    const std::lock_guard guard(lock);
    reports.push_back(bad);
  }

  static void fill(Side& side, std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) {
      side.memory[i] = static_cast<std::byte>(i * 7 + i / 251);
    }
  }
  static void set_pkeys(TestNode& node, std::span<const PKey> pkeys) {
    node.adapter->set_pkeys(node.adapter->port(), pkeys);
  }
  static std::uint64_t violations(const TestNode& node) {
    return node.adapter->arena().header().port_counters.pkey_violations.value();
  }
  static std::uint64_t retransmissions(const Side& side) {
    return side.qp->counters().retransmissions.value();
  }
};

struct InfinibandConnected : InfinibandPair, testing::WithParamInterface<bool> {};

TEST_P(InfinibandConnected, WriteSendAndReadCrossWithoutLoss) {
  constexpr std::uint32_t kLength = 200'000;
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.has_grh = right.has_grh = GetParam();
  connect(left, right);
  fill(left, kLength);

  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, kLength), &right));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + kLength, right.memory.begin()));

  const Segment receive = right.segment(kLength, kLength);
  ASSERT_EQ(0, right.qp->post_receive(9, std::span(&receive, 1)));
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, kLength)));
  EXPECT_EQ(9u, right.next().wr_id);
  ASSERT_EQ(Status::success, left.next().status);

  ASSERT_EQ(0, left.post(Operation::read, left.segment(2 * kLength, kLength), &right, kLength));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + kLength,
                         left.memory.begin() + 2 * kLength));
  EXPECT_GT(left_link.refusals, 0u);   // WRITE and SEND waited for credit,
  EXPECT_GT(right_link.refusals, 0u);  // and so did the READ's response.
  EXPECT_EQ(retransmissions(left), 0u);
}

TEST_P(InfinibandConnected, AtomicsReturnTheValueBefore) {
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.has_grh = right.has_grh = GetParam();
  connect(left, right);
  auto& word = *reinterpret_cast<std::uint64_t*>(right.memory.data());
  word = 40;
  ASSERT_EQ(0, left.post(Operation::fetch_and_add, left.segment(0, 8), &right, 0, 2));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_EQ(40u, *reinterpret_cast<std::uint64_t*>(left.memory.data()));
  ASSERT_EQ(0, left.post(Operation::compare_and_swap, left.segment(0, 8), &right, 0, 42, 7));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_EQ(7u, word);
}

TEST_P(InfinibandConnected, AnUnreliableConnectionWaitsForCreditsToo) {
  constexpr std::uint32_t kLength = 200'000;
  Side left(a, QpType::uc), right(b, QpType::uc);
  left.has_grh = right.has_grh = GetParam();
  connect(left, right);
  fill(left, kLength);
  ASSERT_EQ(0, right.qp->post_receive(9, {}));
  ASSERT_EQ(0, left.post(Operation::write_with_immediate, left.segment(0, kLength), &right));
  EXPECT_EQ(Status::success, left.next().status);
  const Completion received = right.next();
  ASSERT_EQ(Status::success, received.status);
  EXPECT_EQ(0x11223344u, received.immediate);
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + kLength, right.memory.begin()));
  EXPECT_GT(left_link.refusals, 0u);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutGrh, InfinibandConnected, testing::Bool());

TEST_F(InfinibandPair, ASenderWithoutCreditsRestsUntilTheyComeBack) {
  constexpr std::uint32_t kLength = 200'000;
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.timeout = 0;  // Nothing but credits brings it to send again.
  connect(left, right);
  right_link.hold();
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, kLength), &right));
  const std::uint32_t refusals = left_link.refusals;
  EXPECT_GT(refusals, 0u);
  Completion none;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(0, a.adapter->poll(*left.cq, std::span(&none, 1)));
  EXPECT_EQ(left_link.refusals, refusals);
  EXPECT_EQ(left.qp->counters().packets_sent.value(), 3u);
  right_link.let_go();
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(retransmissions(left), 0u);
}

TEST_F(InfinibandPair, TheNakOfAFailedQueuePairLeavesWhenThereIsRoom) {
  Side left(a, QpType::rc), right(b, QpType::rc), full_left(a, QpType::rc),
      full_right(b, QpType::rc);
  for (Side* const side : {&left, &right, &full_left, &full_right}) side->timeout = 0;
  connect(left, right);
  connect(full_left, full_right);
  left_link.hold();
  ASSERT_EQ(0, full_right.post(Operation::write, full_right.segment(0, 100'000), &full_left));
  ASSERT_GT(right_link.refusals, 0u);
  // Rejected at the far end: it is the key of another region.
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 8), &left));
  ASSERT_EQ(AsyncEventType::qp_access_error, right.events.wait()->type);
  left_link.let_go();
  EXPECT_EQ(Status::remote_access_error, left.next().status);
  EXPECT_EQ(Status::success, full_right.next().status);
}

/// Both ends have room for a single packet, and acknowledgements need room as well.
struct NarrowInfinibandPair : InfinibandPair {
  NarrowInfinibandPair() : InfinibandPair(MemoryLink::make(4400)) {}
};

TEST_F(NarrowInfinibandPair, NeitherSideWaitsForEverWhenBothAreFull) {
  constexpr std::uint32_t kLength = 50'000;
  constexpr int kRequests = 10;
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.timeout = right.timeout = 0;
  connect(left, right);
  fill(left, kLength);
  const std::size_t to = right.memory.size() / 2;
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, kLength), &right, to));
    ASSERT_EQ(0, right.post(Operation::read, right.segment(0, kLength), &left));
  }
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(Status::success, left.next().status);
    ASSERT_EQ(Status::success, right.next().status);
  }
  const auto sent = std::span(left.memory).first(kLength);
  EXPECT_TRUE(std::ranges::equal(sent, std::span(right.memory).first(kLength)));
  EXPECT_TRUE(std::ranges::equal(sent, std::span(right.memory).subspan(to, kLength)));
  EXPECT_EQ(retransmissions(left) + retransmissions(right), 0u);
}

constexpr std::array kPartitions{kDefaultPKey, PKey{0x8001}, PKey{0x0002}, PKey{}};

TEST_F(InfinibandPair, QueuePairsOfTheSamePartitionTalk) {
  for (TestNode* const node : {&a, &b}) set_pkeys(*node, kPartitions);
  Side left(a, QpType::rc), right(b, QpType::rc);
  left.pkey_index = right.pkey_index = 1;
  connect(left, right);
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(violations(a) + violations(b), 0u);
}

TEST_F(InfinibandPair, PacketsOfAnotherPartitionAreDroppedAndCounted) {
  for (TestNode* const node : {&a, &b}) set_pkeys(*node, kPartitions);
  for (const std::uint16_t index : std::array<std::uint16_t, 2>{1, 3}) {
    Side left(a, QpType::uc), right(b, QpType::uc);
    right.pkey_index = index;
    connect(left, right);
    const std::uint64_t before = violations(b);
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
    EXPECT_EQ(Status::success, left.next().status);
    EXPECT_TRUE(becomes(before + 1, [this] { return violations(b); }));
  }
}

TEST_F(InfinibandPair, TwoLimitedMembersOfAPartitionDoNotTalk) {
  set_pkeys(a, kPartitions);
  Side left(a, QpType::uc), right(b, QpType::uc);
  left.pkey_index = 2;
  for (const PKey peer : {PKey{0x0002}, PKey{0x8002}}) {
    set_pkeys(b, std::array{peer});
    if (left.qp->state() == QpState::reset) connect(left, right);
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 64), &right));
    EXPECT_EQ(Status::success, left.next().status);
    const bool full = peer == PKey{0x8002};
    EXPECT_TRUE(
        becomes(full ? 1u : 0u, [&] { return right.qp->counters().packets_received.value(); }));
    EXPECT_TRUE(becomes(1u, [this] { return violations(b); }));
  }
}

TEST_F(InfinibandPair, APKeyIndexBeyondTheTableIsRefused) {
  Side side(a, QpType::rc);
  const QueuePairAttributes wanted{.state = QpState::init, .pkey_index = 1};
  constexpr std::uint32_t kInit = kState | kPKeyIndex | kPort | kAccessFlags;
  EXPECT_EQ(EINVAL, side.qp->modify(wanted, kInit).error().code);
  set_pkeys(a, kPartitions);
  EXPECT_TRUE(side.qp->modify(wanted, kInit));
}

struct InfinibandDatagrams : InfinibandPair, testing::WithParamInterface<bool> {};

TEST_P(InfinibandDatagrams, ArriveInOrderAndSayWhereTheyComeFrom) {
  constexpr std::uint32_t kCount = 20, kLength = 4096, kRoom = kLength + wire::Grh::kSize;
  Side left(a, QpType::ud), right(b, QpType::ud);
  start_datagrams(left);
  start_datagrams(right);
  left.has_grh = GetParam();
  port::AddressVector vector = left.vector_to(right, 0);
  vector.dlid = Lid{8 + 1};
  vector.path_bits = 3;
  vector.service_level = 5;
  const auto destination = a.adapter->resolve(vector);
  ASSERT_TRUE(destination) << destination.error().text;
  fill(left, kLength);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const Segment receive = right.segment(std::size_t{i} * kRoom, kRoom);
    ASSERT_EQ(0, right.qp->post_receive(i, std::span(&receive, 1)));
  }
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(0, send_datagram(left, *destination, right.qp->number(), left.segment(0, kLength)));
  }
  for (std::uint32_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(Status::success, left.next().status);
    const Completion received = right.next();
    ASSERT_EQ(Status::success, received.status);
    EXPECT_EQ(i, received.wr_id);
    EXPECT_EQ(kRoom, received.byte_count);
    EXPECT_EQ(left.qp->number().value(), received.source_qpn);
    EXPECT_EQ(4 + 3, received.source_lid);
    EXPECT_EQ(1, received.path_bits);
    EXPECT_EQ(5, received.service_level);
    EXPECT_EQ((received.flags & kCompletionGrh) != 0, GetParam());
    const auto* const start_of = &right.memory[std::size_t{i} * kRoom];
    EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + kLength,
                           start_of + wire::Grh::kSize));
    if (!GetParam()) continue;
    const auto grh = wire::decode_grh({start_of, wire::Grh::kSize});
    ASSERT_TRUE(grh);
    EXPECT_EQ(grh->source, gid_with(1));
    EXPECT_EQ(grh->destination, gid_with(2));
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutGrh, InfinibandDatagrams, testing::Bool());

TEST_P(InfinibandDatagrams, OfAnotherPartitionAreReported) {
  Side left(a, QpType::ud), right(b, QpType::ud);
  start_datagrams(left);
  start_datagrams(right);
  set_pkeys(b, std::array{PKey{0x8001}});
  left.has_grh = GetParam();
  port::AddressVector vector = left.vector_to(right, 0);
  vector.path_bits = 3;
  vector.service_level = 5;
  const Destination destination = a.adapter->resolve(vector).value();
  ASSERT_EQ(0, send_datagram(left, destination, right.qp->number(), left.segment(0, 64)));
  const auto count = [this] {
    const std::lock_guard guard(lock);
    return reports.size();
  };
  ASSERT_TRUE(becomes(1, count));
  const wire::BadKeyDetails expected{.source_lid = Lid{4 + 3},
                                     .destination_lid = Lid{8},
                                     .key = raw(kDefaultPKey),
                                     .service_level = 5,
                                     .source_qpn = left.qp->number().value(),
                                     .destination_qpn = right.qp->number().value(),
                                     .source_gid = GetParam() ? gid_with(1) : Gid{},
                                     .destination_gid = GetParam() ? gid_with(2) : Gid{}};
  EXPECT_EQ(reports[0], expected);
}

TEST_F(InfinibandDatagrams, ComeToTheMembersOfAGroup) {
  Gid group;
  group.bytes[0] = 0xff;
  group.bytes[1] = 0x12;
  const Lid lid{0xc001};
  Side left(a, QpType::ud), right(b, QpType::ud);
  start_datagrams(left);
  start_datagrams(right);
  EXPECT_EQ(EINVAL, b.adapter->attach_multicast(*right.qp, {group, Lid{8}}).error().code);
  ASSERT_TRUE(b.adapter->attach_multicast(*right.qp, {group, lid}));
  const Segment receive = right.segment(0, 1000);
  ASSERT_EQ(0, right.qp->post_receive(7, std::span(&receive, 1)));
  const auto destination = a.adapter->resolve({.dest_gid = group, .dlid = lid});
  ASSERT_TRUE(destination);
  ASSERT_EQ(0, send_datagram(left, *destination, kMulticastQpn, left.segment(0, 100)));
  const Completion received = right.next();
  EXPECT_EQ(Status::success, received.status);
  EXPECT_EQ(7u, received.wr_id);
  EXPECT_EQ(kCompletionGrh, received.flags);
  EXPECT_EQ(4, received.source_lid);
  EXPECT_EQ(0, received.path_bits);
}

TEST_F(InfinibandDatagrams, AreNotForGroupsThatShareTheLid) {
  const Lid lid{0xc001};
  const Gid group{{0xff, 0x12}};
  const Gid other{{0xff, 0x13}};
  Side left(a, QpType::ud), right(b, QpType::ud);
  start_datagrams(left);
  start_datagrams(right);
  ASSERT_TRUE(b.adapter->attach_multicast(*right.qp, {group, lid}));
  EXPECT_EQ(EINVAL, b.adapter->detach_multicast(*right.qp, {other, lid}).error().code);
  for (const std::uint64_t id : {1, 2}) {
    const Segment receive = right.segment(0, 1000);
    ASSERT_EQ(0, right.qp->post_receive(id, std::span(&receive, 1)));
  }
  for (const auto& [gid, length] : {std::pair{other, 60}, std::pair{group, 100}}) {
    const auto destination = a.adapter->resolve({.dest_gid = gid, .dlid = lid});
    ASSERT_TRUE(destination);
    const auto bytes = static_cast<std::uint32_t>(length);
    ASSERT_EQ(0, send_datagram(left, *destination, kMulticastQpn, left.segment(0, bytes)));
  }
  const Completion received = right.next();
  EXPECT_EQ(1u, received.wr_id);
  EXPECT_EQ(140u, received.byte_count) << "the GRH and the group's datagram";
}

TEST_F(InfinibandPair, AnAddressVectorLeadsToALid) {
  const auto path = [this](const port::AddressVector& vector) {
    return a.adapter->port().path_to(vector);
  };
  for (const port::AddressVector& bad : {port::AddressVector{.dest_gid = gid_with(2)},
                                         {.dlid = Lid{0xffff}},
                                         {.dlid = Lid{0xc001}, .is_global = false},
                                         {.dlid = Lid{7}, .service_level = 16}}) {
    ASSERT_FALSE(path(bad));
    EXPECT_EQ(path(bad).error().code, EINVAL);
  }
  const InfinibandPath expected{
      .dlid = Lid{7}, .slid = Lid{5}, .service_level = 2, .static_rate = 5};
  EXPECT_EQ(path({.dlid = Lid{7},
                  .service_level = 2,
                  .path_bits = 1,
                  .static_rate = 5,
                  .is_global = false}),
            Path(expected));
}

}  // namespace
}  // namespace verbatim::adapter
