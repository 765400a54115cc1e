#include <cerrno>
#include <future>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <poll.h>

#include "test_util.h"

namespace verbatim {
namespace {

using kit::Pair;

TEST(Batch, IsPostedAtOnceAndHasOneToken) {
  Pair pair;
  kit::put(pair.here, "abcdefgh");
  RequestToken token = pair.asker.batch()
                           .write(pair.here.slice(0, 4), pair.there.token(0, 4))
                           .write(pair.here.slice(4, 4), pair.there.token(100, 4))
                           .read(pair.here.slice(8, 4), pair.there.token(100, 4))
                           .post();
  const auto end = token.wait();
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_EQ(kit::text(pair.there, 4), "abcd");
  EXPECT_EQ(kit::text(pair.here, 4, 8), "efgh");
}

TEST(Batch, ThatDoesNotFitTheQueueIsRefusedWhole) {
  ConnectOptions small;
  small.queue_pair.send_depth = 4;
  Pair pair(small);
  Batch batch = pair.asker.batch();
  for (int i = 0; i < 5; ++i) batch.write(pair.here.slice(0, 8), pair.there.token());
  EXPECT_EQ(batch.post().wait().error().status, Status::queue_full);
  EXPECT_EQ(pair.asker.in_flight(), 0u);
  EXPECT_EQ(batch.size(), 0u);
}

/// Accepts the first `kTaken` requests of a post and refuses the next.
constexpr int kTaken = 2;
int (*post_all)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
int post_some(ibv_qp* queue_pair, ibv_send_wr* request, ibv_send_wr** bad) {
  ibv_send_wr* last = request;
  for (int i = 1; i < kTaken; ++i) last = last->next;
  *bad = std::exchange(last->next, nullptr);
  const int code = post_all(queue_pair, request, bad);
  return code != 0 ? code : EINVAL;
}

TEST(Batch, SaysHowManyAnAdapterTookThatRefusesOne) {
  Pair pair;
  kit::put(pair.here, "abcdefgh");
  Batch batch = pair.asker.batch();
  for (std::size_t i = 0; i < 8; i += 2) batch.write(pair.here.slice(i, 2), pair.there.token(i, 2));
  auto& post = pair.asker.native()->context->ops.post_send;
  post_all = std::exchange(post, post_some);
  const auto end = batch.post().wait();
  post = post_all;
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().status, Status::refused);
  EXPECT_NE(end.error().message().find("Batch::taken"), std::string::npos);
  EXPECT_EQ(batch.taken(), static_cast<std::size_t>(kTaken));
  EXPECT_EQ(pair.asker.in_flight(), static_cast<std::uint32_t>(kTaken));
  const auto drained = pair.asker.drain(std::chrono::seconds(10));
  EXPECT_TRUE(drained) << drained.error().message();
  EXPECT_EQ(kit::text(pair.there, 4), "abcd");
  batch.write(pair.here.slice(0, 2), pair.there.token(4, 2));
  EXPECT_TRUE(batch.post().wait());
  EXPECT_EQ(batch.taken(), 1u);
}

TEST(Datagram, CarriesMessageAndImmediate) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  DatagramQueuePair sender = DatagramQueuePair::make(domain).value();
  DatagramQueuePair receiver = DatagramQueuePair::make(domain, {}, 77).value();
  Buffer here = domain.allocate(4096).value();
  Buffer there = domain.allocate(4096).value();
  RequestToken received = receiver.receive(there.slice());
  const Destination to = sender.resolve(receiver.address()).value();
  kit::put(here, "datagram");
  ASSERT_TRUE(sender.send(here.slice(0, 8), to, Immediate{9}).wait());
  const auto message = received.wait();
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->bytes, 8u);
  EXPECT_EQ(message->immediate, 9u);
  EXPECT_EQ(message->source_queue_pair, sender.number());
  EXPECT_EQ(kit::text(there, 8, DatagramQueuePair::kHeaderBytes), "datagram");
}

TEST(SharedReceives, ServeSeveralQueuePairs) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  const CompletionQueue completions = CompletionQueue::make(domain.context()).value();
  SharedReceiveQueue shared = SharedReceiveQueue::make(domain, completions).value();
  Buffer buffer = domain.allocate(4096).value();
  for (std::uint64_t tag = 0; tag < 4; ++tag)
    ASSERT_TRUE(shared.post(buffer.slice(tag * 64, 64), tag));
  ConnectOptions receiving;
  receiving.queue_pair.shared_receives = shared;
  auto first = kit::connect_both(domain, {}, receiving);
  auto second = kit::connect_both(domain, {}, receiving);
  kit::put(buffer, "12", 1000);
  ASSERT_TRUE(first.first.send(buffer.slice(1000, 1)).wait());
  const Message one = shared.wait().value();
  EXPECT_EQ(one.completion.queue_pair, first.second.number());
  EXPECT_EQ(*one.memory.data, std::byte{'1'});
  ASSERT_TRUE(second.first.send(buffer.slice(1001, 1)).wait());
  const Message two = shared.wait().value();
  EXPECT_EQ(two.completion.queue_pair, second.second.number());
  EXPECT_EQ(two.completion.bytes, 1u);
  EXPECT_FALSE(shared.next());
}

TEST(SharedReceives, ReserveTheirDepthInTheCompletionQueue) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  const auto completions = CompletionQueue::make(domain.context(), {.entries = 64}).value();
  const auto entries = static_cast<std::uint32_t>(completions.native()->cqe);
  const auto larger = SharedReceiveQueue::make(domain, completions, {.depth = entries + 1});
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().status, Status::queue_full);
  EXPECT_EQ(larger.error().call, Call::make_receive_queue);
  {
    const auto all = SharedReceiveQueue::make(domain, completions, {.depth = entries});
    ASSERT_TRUE(all) << all.error().message();
    EXPECT_FALSE(SharedReceiveQueue::make(domain, completions, {.depth = 1}));
  }
  EXPECT_TRUE(SharedReceiveQueue::make(domain, completions, {.depth = entries}));
}

TEST(SharedReceives, TakeAlsoWhatCameOnAQueuePairThatHasGone) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  const CompletionQueue completions = CompletionQueue::make(domain.context()).value();
  SharedReceiveQueue shared = SharedReceiveQueue::make(domain, completions, {.depth = 1}).value();
  Buffer buffer = domain.allocate(4096).value();
  ASSERT_TRUE(shared.post(buffer.slice(0, 64), 5));
  EXPECT_EQ(shared.post(buffer.slice(0, 64)).error().status, Status::queue_full);
  ConnectOptions receiving;
  receiving.queue_pair.shared_receives = shared;
  {
    auto ends = kit::connect_both(domain, {}, receiving);
    ASSERT_TRUE(ends.first.send(buffer.slice(100, 8)).wait());
  }
  const auto message = shared.wait(std::chrono::seconds(10));
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->tag, 5u);
  EXPECT_TRUE(shared.post(buffer.slice(0, 64)));
  EXPECT_EQ(shared.wait(std::chrono::milliseconds(1)).error().status, Status::timed_out);
}

TEST(Exchange, ConnectsOverTcpAndCarriesTokens) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  exchange::Listener listener = exchange::Listener::open(domain).value();
  Buffer there = domain.allocate(4096).value();
  ConnectOptions offer;
  const auto token = there.token().to_bytes();
  offer.data.assign(token.begin(), token.end());
  auto accepted = std::async(
      std::launch::async, [&] { return listener.accept(offer, std::chrono::seconds(10)).value(); });
  QueuePair asker = exchange::connect(domain, "localhost", listener.port()).value();
  const QueuePair peer = accepted.get();
  EXPECT_EQ(asker.peer_number(), peer.number());
  EXPECT_TRUE(peer.peer_data().empty());
  Buffer here = domain.allocate(4096).value();
  kit::put(here, "over TCP");
  ASSERT_TRUE(
      asker.write(here.slice(0, 8), RegionToken::from_bytes(asker.peer_data()).value()).wait());
  EXPECT_EQ(kit::text(there, 8), "over TCP");
}

TEST(Connect, CarriesDataBothWaysAndSaysWhyNot) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  Listener listener = Listener::open(domain).value();
  const std::string address = kit::own_address(domain.context());
  auto accepted = std::async(std::launch::async, [&] {
    ConnectionRequest request = listener.next(std::chrono::seconds(10)).value();
    EXPECT_EQ(request.peer_data()[0], std::byte{'?'});
    ConnectOptions answer;
    answer.data = {std::byte{'!'}};
    return std::move(request).accept(answer).value();
  });
  ConnectOptions question;
  question.data = {std::byte{'?'}};
  const QueuePair asker = connect(domain, address, listener.port(), question).value();
  const QueuePair peer = accepted.get();
  EXPECT_EQ(asker.peer_data()[0], std::byte{'!'});

  auto rejected = std::async(std::launch::async, [&] {
    std::move(listener.next(std::chrono::seconds(10)).value()).reject();
  });
  const auto refused = connect(domain, address, listener.port());
  rejected.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::disconnected);
  question.data.resize(57);
  EXPECT_EQ(connect(domain, address, listener.port(), question).error().status,
            Status::out_of_range);
}

TEST(Connect, TellsThatThePeerHasLeft) {
  Pair pair;
  RequestToken waiting = pair.peer.receive(pair.there.slice());
  EXPECT_TRUE(pair.peer.is_connected());
  pair.asker.disconnect();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (pair.peer.is_connected() && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  EXPECT_FALSE(pair.peer.is_connected());
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(10)).error().status, Status::flushed);
}

TEST(Connect, EndsTheReceivesOfWhoWaitsWhenThePeerLeaves) {
  Pair pair;
  RequestToken received = pair.peer.receive(pair.there.slice());
  auto leaves = std::async(std::launch::async, [&] { pair.asker.disconnect(); });
  EXPECT_EQ(received.wait_for(std::chrono::seconds(10)).error().status, Status::flushed);
  leaves.get();
  EXPECT_FALSE(pair.peer.is_connected());
}

TEST(Connect, WakesWhoSleepsAtTheDescriptorWhenThePeerLeaves) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  CompletionQueue completions = CompletionQueue::make(domain.context()).value();
  ConnectOptions receiving;
  receiving.queue_pair.completions = completions;
  receiving.queue_pair.shared_receives = SharedReceiveQueue::make(domain, completions).value();
  auto [asker, peer] = kit::connect_both(domain, {}, receiving);
  ASSERT_TRUE(completions.arm());
  asker.disconnect();
  pollfd events{.fd = completions.event_descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&events, 1, 10'000), 1);
  EXPECT_FALSE(completions.arm());
  EXPECT_TRUE(completions.arm());
  EXPECT_FALSE(peer.is_connected());
  EXPECT_EQ(poll(&events, 1, 0), 0);
}

// What comes while a thread waits for its own request causes no event later.
TEST(Connect, ArmTellsOfAMessageThatAWaitForAnotherRequestHasTaken) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  CompletionQueue completions = CompletionQueue::make(domain.context()).value();
  SharedReceiveQueue messages = SharedReceiveQueue::make(domain, completions).value();
  Buffer memory = domain.allocate(64).value();
  ASSERT_TRUE(messages.post(memory.slice(0, 8)));
  ConnectOptions receiving;
  receiving.queue_pair.completions = completions;
  receiving.queue_pair.shared_receives = messages;
  auto [asker, peer] = kit::connect_both(domain, {}, receiving);
  RequestToken answer = asker.receive(memory.slice(8, 8));
  ASSERT_TRUE(asker.send(memory.slice(16, 8)).wait());
  RequestToken sent = peer.send(memory.slice(24, 8));
  ASSERT_TRUE(sent.wait_for(std::chrono::seconds(10)));
  ASSERT_TRUE(answer.wait_for(std::chrono::seconds(10)));
  while (completions.poll() != 0) {
  }
  EXPECT_FALSE(completions.arm()) << "a message waits for the program";
  EXPECT_TRUE(messages.next().has_value());
  EXPECT_TRUE(completions.arm());
}

TEST(Connect, ArmTellsOfAPeerThatLeftWhileAnotherRequestWasWaitedFor) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  CompletionQueue completions = CompletionQueue::make(domain.context()).value();
  Buffer memory = domain.allocate(64).value();
  ConnectOptions sharing;
  sharing.queue_pair.completions = completions;
  sharing.queue_pair.shared_receives = SharedReceiveQueue::make(domain, completions).value();
  auto [leaving, left] = kit::connect_both(domain, {}, sharing);
  ASSERT_TRUE(completions.arm());
  leaving.disconnect();
  EXPECT_EQ(completions.wait(std::chrono::milliseconds(200)), 0);
  EXPECT_FALSE(completions.arm()) << "nobody has told the program that the peer has left";
  EXPECT_TRUE(completions.arm());
  EXPECT_FALSE(left.is_connected());
}

TEST(Connect, CarriesARegionToken) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  const Buffer memory = domain.allocate(64).value();
  const auto bytes = memory.token().to_bytes();
  const ConnectOptions offer{.data = {bytes.begin(), bytes.end()}};
  const auto [asker, peer] = kit::connect_both(domain, {}, offer);
  EXPECT_EQ(RegionToken::from_bytes(asker.peer_data()).value(), memory.token());
}

TEST(RegionToken, HasAFixedForm) {
  const RegionToken token{.address = 0x0102030405060708,
                          .size = 0x1000,
                          .remote_key = 0xa1b2c3d4,
                          .rights = Access::remote_read};
  const auto bytes = token.to_bytes();
  EXPECT_EQ(bytes[0], std::byte{'V'});
  EXPECT_EQ(bytes[4], std::byte{0xa1});
  EXPECT_EQ(bytes[8], std::byte{0x01});
  EXPECT_EQ(RegionToken::from_bytes(bytes).value(), token);
  EXPECT_EQ(RegionToken::from_bytes(std::span(bytes).first(23)).error().status, Status::bad_format);
}

}  // namespace
}  // namespace verbatim
