#include <numeric>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "adapter/adapter_test_util.h"

/// Two adapters in one process, over sockets on separate loopback addresses, without an agent:
/// shows the threads to the sanitizers.
namespace verbatim::adapter {
namespace {

TEST(Granted, ReceiveQueuesHaveSomeMoreThanIsWanted) {
  for (const std::uint32_t wanted : {32u, 500u, 512u, 4096u}) {
    EXPECT_EQ(granted_receives(wanted, Limits::requests), wanted + 8) << wanted;
  }
  EXPECT_EQ(granted_receives(Limits::requests, Limits::requests), Limits::requests);
  EXPECT_EQ(granted_receives(16, 17), 17u);
}

TEST(Granted, CompletionQueuesHoldWhatTheQueuesTheyAreMadeForHold) {
  for (std::uint32_t wanted = 0; wanted < 3000; ++wanted) {
    for (const std::uint32_t queues : {1u, 2u, 3u, 10u}) {
      EXPECT_LE(queues * granted_receives(wanted, Limits::requests),
                granted_completions(queues * wanted, Limits::completions));
    }
  }
  EXPECT_EQ(granted_completions(63, 63), 63u);
}

/// As a card that processes packets in the order of their arrival.
TEST_F(AdapterPair, AnAcknowledgementThatHasArrivedCountsBeforeAnError) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right);
  right.connect(left);
  const Segment receive = right.segment(0, 64);
  ASSERT_EQ(0, right.qp->post_receive(7, std::span(&receive, 1)));
  // Before `modify` only the background thread, if it is faster, reads the socket.
  a.adapter->progress().between_passes([&] {
    EXPECT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
    EXPECT_EQ(Status::success, right.next().status);
    pollfd acknowledgement{.fd = a.socket.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(1, ::poll(&acknowledgement, 1, 5000));
  });
  ASSERT_TRUE(left.qp->modify({.state = QpState::err}, kState));
  EXPECT_EQ(Status::success, left.next().status);
}

TEST_F(AdapterPair, RcMovesBytesByEveryOperation) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right);
  right.connect(left);
  constexpr std::uint32_t kLength = 300'001;
  fill(left, 0, kLength, 1);

  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, kLength), &right, 5));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_TRUE(
      std::equal(left.memory.begin(), left.memory.begin() + kLength, right.memory.begin() + 5));

  const Segment receive = right.segment(400'000, kLength);
  ASSERT_EQ(0, right.qp->post_receive(77, std::span(&receive, 1)));
  ASSERT_EQ(0, left.post(Operation::send_with_immediate, left.segment(0, kLength)));
  const Completion received = right.next();
  EXPECT_EQ(77u, received.wr_id);
  EXPECT_EQ(kLength, received.byte_count);
  EXPECT_EQ(kCompletionWithImmediate, received.flags);
  EXPECT_EQ(0x11223344u, received.immediate);
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + kLength,
                         right.memory.begin() + 400'000));
  ASSERT_EQ(Status::success, left.next().status);

  ASSERT_EQ(0, left.post(Operation::read, left.segment(500'000, kLength), &right, 5));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + kLength,
                         left.memory.begin() + 500'000));

  auto& word = *reinterpret_cast<std::uint64_t*>(right.memory.data() + 900'000);
  word = 40;
  ASSERT_EQ(0, left.post(Operation::fetch_and_add, left.segment(900'000, 8), &right, 900'000, 2));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_EQ(40u, *reinterpret_cast<std::uint64_t*>(left.memory.data() + 900'000));
  ASSERT_EQ(
      0, left.post(Operation::compare_and_swap, left.segment(900'000, 8), &right, 900'000, 42, 7));
  ASSERT_EQ(Status::success, left.next().status);
  EXPECT_EQ(7u, word);
}

TEST_F(AdapterPair, WrongKeyEndsInErrorAndFlushes) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right);
  right.connect(left);
  Segment local = left.segment(0, 64);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(0, left.qp->post_send({.wr_id = 1,
                                     .request = {.operation = Operation::write,
                                                 .length = 64,
                                                 .remote_address = right.address(),
                                                 .remote_key = MemoryKey{raw(right.key) ^ 0x100}},
                                     .segments = std::span(&local, 1),
                                     .flags = kPostSignaled}));
  }
  EXPECT_EQ(Status::remote_access_error, left.next().status);
  EXPECT_EQ(Status::flushed, left.next().status);
  EXPECT_EQ(QpState::err, left.qp->state());
  EXPECT_EQ(AsyncEventType::qp_access_error, right.events.wait()->type);
}

TEST_F(AdapterPair, AGidThatIsAddedWhileOthersAreInUseServes) {
  Side before(a, QpType::rc);
  Side before_peer(b, QpType::rc);
  before.connect(before_peer);
  before_peer.connect(before);
  const port::AddressVector by_new{.dest_gid = gid_of(TestNode::own_address(203)),
                                   .source_gid_index = 2};
  EXPECT_EQ(a.adapter->resolve(by_new).error().code, EINVAL);
  a.add_gid(203);
  b.add_gid(204);
  EXPECT_TRUE(a.adapter->resolve(by_new));

  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right, Mtu::k4096, 2);
  right.connect(left, Mtu::k4096, 2);
  for (const auto& [from, to] : {std::pair{&left, &right}, {&before, &before_peer}}) {
    ASSERT_EQ(0, from->post(Operation::write, from->segment(0, 100'000), to));
    EXPECT_EQ(Status::success, from->next().status);
  }
}

TEST_F(AdapterPair, TheActiveMtuBoundsNewPathsOnly) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right, Mtu::k4096);
  right.connect(left, Mtu::k4096);
  a.adapter->port_events().change(a.adapter->port(), {.active_mtu = Mtu::k1024});
  ASSERT_EQ(0, left.post(Operation::write, left.segment(0, 100'000), &right));
  EXPECT_EQ(Status::success, left.next().status);

  Side late(a, QpType::uc);
  ASSERT_TRUE(
      late.qp->modify({.state = QpState::init}, kState | kPKeyIndex | kPort | kAccessFlags));
  QueuePairAttributes attributes{.state = QpState::rtr, .path_mtu = Mtu::k2048};
  attributes.dest_qpn = right.qp->number();
  attributes.address = {.dest_gid = b.adapter->port().gids()[1].gid, .source_gid_index = 1};
  const auto moved =
      late.qp->modify(attributes, kState | kAddressVector | kPathMtu | kDestQpn | kReceivePsn);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().text, "path_mtu 2048 is above the port's active MTU 1024");
}

TEST_F(AdapterPair, UnregisteredLocalMemoryIsAProtectionError) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right);
  right.connect(left);
  ASSERT_EQ(0, left.post(Operation::write, {left.address(), 64, 12345}, &right));
  EXPECT_EQ(Status::local_protection_error, left.next().status);
}

TEST_F(AdapterPair, EventsComeWithoutPolling) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right, Mtu::k1024, 0);
  right.connect(left, Mtu::k1024, 0);
  for (int round = 0; round < 20; ++round) {
    const Segment receive = right.segment(0, 5000);
    ASSERT_EQ(0, right.qp->post_receive(1, std::span(&receive, 1)));
    right.node.adapter->arm(*right.cq, false);
    ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 5000)));
    ASSERT_EQ(right.cq.get(), right.channel.wait().value());
    right.cq->count_delivered_event();
    right.cq->acknowledge_events(1);
    ASSERT_EQ(Status::success, right.next().status);
    ASSERT_EQ(Status::success, left.next().status);
  }
}

TEST_F(AdapterPair, TwoThreadsPostAndPollTwoQueuePairs) {
  constexpr int kMessages = 2'000;
  Side left[]{{a, QpType::rc}, {a, QpType::rc}};
  Side right[]{{b, QpType::rc}, {b, QpType::rc}};
  for (int i = 0; i < 2; ++i) {
    left[i].connect(right[i]);
    right[i].connect(left[i]);
  }
  const auto client = [&](int i) {
    for (int message = 0; message < kMessages; ++message) {
      ASSERT_EQ(0, left[i].post(Operation::write, left[i].segment(0, 9000), &right[i]));
      ASSERT_EQ(Status::success, left[i].next().status);
    }
  };
  std::thread first(client, 0);
  std::thread second(client, 1);
  first.join();
  second.join();
}

TEST_F(AdapterPair, UcDelivers) {
  Side left(a, QpType::uc);
  Side right(b, QpType::uc);
  left.connect(right);
  right.connect(left);
  const Segment receive = right.segment(0, 20'000);
  ASSERT_EQ(0, right.qp->post_receive(9, std::span(&receive, 1)));
  fill(left, 0, 20'000, 3);
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 20'000)));
  EXPECT_EQ(Status::success, left.next().status);
  EXPECT_EQ(9u, right.next().wr_id);
  EXPECT_TRUE(std::equal(left.memory.begin(), left.memory.begin() + 20'000, right.memory.begin()));
}

void start_datagrams(Side& side) {
  QueuePairAttributes attributes{.state = QpState::init, .qkey = QKey{0x1234}};
  ASSERT_TRUE(side.qp->modify(attributes, kState | kPKeyIndex | kPort | kQKey));
  attributes.state = QpState::rtr;
  ASSERT_TRUE(side.qp->modify(attributes, kState));
  attributes.state = QpState::rts;
  ASSERT_TRUE(side.qp->modify(attributes, kState | kSendPsn));
}

TEST_F(AdapterPair, UdDeliversBehindAGrhToOneAndToAGroup) {
  Side left(a, QpType::ud);
  Side right(b, QpType::ud);
  start_datagrams(left);
  start_datagrams(right);
  const Gid group = gid_of(SocketAddress::ipv4({239, 1, 2, 3}));
  ASSERT_TRUE(b.adapter->attach_multicast(*right.qp, {group}));
  fill(left, 0, 100, 5);
  const Segment receive = right.segment(0, 200);
  for (const Gid& gid : {b.adapter->port().gids()[0].gid, group}) {
    ASSERT_EQ(0, right.qp->post_receive(3, std::span(&receive, 1)));
    const auto destination = a.adapter->resolve({.dest_gid = gid, .source_gid_index = 1});
    ASSERT_TRUE(destination) << destination.error().text;
    const Segment local = left.segment(0, 100);
    ASSERT_EQ(0,
              left.qp->post_send({.wr_id = 1,
                                  .request = {.operation = Operation::send, .length = 100},
                                  .segments = std::span(&local, 1),
                                  .flags = kPostSignaled,
                                  .destination = &*destination,
                                  .remote_qpn = gid == group ? kMulticastQpn : right.qp->number(),
                                  .remote_qkey = QKey{0x1234}}));
    EXPECT_EQ(Status::success, left.next().status);
    const Completion received = right.next();
    ASSERT_EQ(Status::success, received.status);
    EXPECT_EQ(140u, received.byte_count);
    EXPECT_EQ(left.qp->number().value(), received.source_qpn);
    EXPECT_TRUE(
        std::equal(left.memory.begin(), left.memory.begin() + 100, right.memory.begin() + 40));
  }
}

TEST_F(AdapterPair, ReceiverNotReadyIsRetriedUntilAReceiveIsPosted) {
  Side left(a, QpType::rc);
  Side right(b, QpType::rc);
  left.connect(right);
  right.connect(left);
  ASSERT_EQ(0, left.post(Operation::send, left.segment(0, 64)));
  const Segment receive = right.segment(0, 64);
  while (right.qp->counters().rnr_naks_sent.value() == 0) {
    std::this_thread::yield();
  }
  ASSERT_EQ(0, right.qp->post_receive(4, std::span(&receive, 1)));
  EXPECT_EQ(4u, right.next().wr_id);
  EXPECT_EQ(Status::success, left.next().status);
}

}  // namespace
}  // namespace verbatim::adapter
