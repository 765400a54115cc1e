#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_util.h"

namespace verbatim {
namespace {

using kit::Pair;

TEST(Devices, AreOpenedByNameAddressAndGid) {
  const auto all = devices().value();
  ASSERT_FALSE(all.empty());
  const Context first = Context::open().value();
  EXPECT_EQ(first.device().name, all[0].name);
  EXPECT_EQ(first.device().node_guid, all[0].node_guid);
  EXPECT_TRUE(first.port().active);
  EXPECT_EQ(first.gid(), first.port().gids.at(first.gid_index()));
  EXPECT_EQ(std::string(ibv_get_device_name(first.native()->device)), all[0].name);
  EXPECT_EQ(Context::open({.name = all[0].name}).value().native(), first.native());
  const std::string address = kit::own_address(first);
  EXPECT_EQ(Context::open({.address = address}).value().gid(), first.gid());
  EXPECT_EQ(Context::open({.address = first.gid().to_string()}).value().gid(), first.gid());
  EXPECT_EQ(Context::open({.port = 1, .gid_index = 0}).value().gid_index(), 0);
}

TEST(Memory, OfTheCallerAndOfTheLibrary) {
  const Context context = Context::open().value();
  const ProtectionDomain domain = context.allocate_domain().value();
  EXPECT_EQ(domain.context().native(), context.native());
  EXPECT_NE(domain.native(), nullptr);
  std::vector<std::byte> own(8192);
  RegisteredMemory memory = domain.register_memory(own, Access::local_write).value();
  EXPECT_EQ(memory.bytes().data(), own.data());
  EXPECT_EQ(memory.size(), own.size());
  EXPECT_EQ(memory.token().remote_key, memory.native()->rkey);
  EXPECT_EQ(memory.token(8192, 1).size, 0u);
  EXPECT_FALSE(memory.slice(8192, 1).is_valid);
  RegisteredMemory moved = std::move(memory);
  EXPECT_EQ(moved.slice().size, 8192u);
  Buffer buffer = domain.allocate(100, Access::remote_read).value();
  EXPECT_EQ(buffer.as<std::uint64_t>().size(), 12u);
  EXPECT_EQ(buffer.token().rights, Access::remote_read);
  buffer = domain.allocate(200).value();
  EXPECT_EQ(buffer.size(), 200u);
  AtomicCell cell = domain.allocate_atomic(7).value();
  cell.store(8);
  EXPECT_EQ(cell.load(), 8u);
}

TEST(Connected, ScattersAndGathers) {
  ConnectOptions wide;
  wide.queue_pair.receive_slices = 2;
  Pair pair({}, wide);
  kit::put(pair.here, "abcdef");
  const Slice parts[] = {pair.here.slice(4, 2), pair.here.slice(0, 2)};
  ASSERT_TRUE(pair.asker.write(parts, pair.there.token()).wait());
  EXPECT_EQ(kit::text(pair.there, 4), "efab");
  const Slice into[] = {pair.here.slice(10, 1), pair.here.slice(20, 3)};
  const auto read = pair.asker.read(into, pair.there.token(0, 4)).wait();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->bytes, 4u);
  EXPECT_EQ(kit::text(pair.here, 3, 20), "fab");
  const Slice places[] = {pair.there.slice(100, 1), pair.there.slice(200, 8)};
  RequestToken received = pair.peer.receive(places);
  ASSERT_TRUE(pair.asker.send(parts, {.fenced = true, .solicited = true}).wait());
  EXPECT_EQ(received.wait().value().bytes, 4u);
  EXPECT_EQ(kit::text(pair.there, 3, 200), "fab");
}

TEST(Connected, InlineBytesAreTakenAtOnce) {
  Pair pair;
  std::byte unregistered[8] = {std::byte{'i'}};
  const Slice slice{.data = unregistered, .size = 8};
  RequestToken token = pair.asker.write(slice, pair.there.token(), {.inlined = true});
  unregistered[0] = std::byte{'x'};
  ASSERT_TRUE(token.wait());
  EXPECT_EQ(kit::text(pair.there, 1), "i");
}

TEST(Connected, AWriteWithImmediateCompletesAReceive) {
  Pair pair;
  RequestToken received = pair.peer.receive(pair.there.slice(0, 8));
  ASSERT_TRUE(pair.asker.write(pair.here.slice(0, 8), pair.there.token(), Immediate{5}).wait());
  EXPECT_EQ(received.wait().value().immediate, 5u);
  EXPECT_EQ(&pair.asker.domain().context().device(), &pair.context.device());
  EXPECT_EQ(pair.asker.peer_number(), pair.peer.number());
}

TEST(Connected, ThreadsShareAQueue) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  ConnectOptions shared;
  shared.queue_pair.completions =
      CompletionQueue::make(domain.context(), {.shared_by_threads = true}).value();
  auto ends = kit::connect_both(domain, shared);
  Buffer buffer = domain.allocate(4096).value();
  const auto work = [&] {
    for (int i = 0; i < 500; ++i)
      ends.first.write(buffer.slice(0, 8), buffer.token(8, 8)).wait().value();
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(ends.first.in_flight(), 0u);
}

TEST(Datagram, SaysWhereItIs) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  DatagramQueuePair queue_pair = DatagramQueuePair::make(domain).value();
  EXPECT_EQ(queue_pair.address().gid, domain.context().gid());
  EXPECT_EQ(queue_pair.address().queue_pair, queue_pair.native()->qp_num);
  EXPECT_GE(queue_pair.max_message(), 256u);
  Buffer buffer = domain.allocate(4096).value();
  const Destination self = queue_pair.resolve(queue_pair.address()).value();
  RequestToken received = queue_pair.receive(buffer.slice(0, 100));
  ASSERT_TRUE(queue_pair.send(buffer.slice(200, 8), self).wait());
  EXPECT_EQ(received.wait().value().bytes, 8u);
  EXPECT_EQ(queue_pair.completions().poll(), 0);
}

TEST(Exchange, GoesOverASocketThatIsConnectedAlready) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  auto accepted = std::async(std::launch::async,
                             [&] { return exchange::connect_over(domain, sockets[1]).value(); });
  QueuePair asker = exchange::connect_over(domain, sockets[0]).value();
  QueuePair peer = accepted.get();
  EXPECT_TRUE(asker.is_connected());
  EXPECT_EQ(peer.peer_number(), asker.number());
  const std::string text(64, 'x');
  ASSERT_EQ(write(sockets[0], text.data(), text.size()), 64);
  // The peer uses another protocol.
  EXPECT_EQ(exchange::connect_over(domain, sockets[1]).error().status, Status::bad_format);
  close(sockets[0]);
  close(sockets[1]);
}

TEST(Listener, TellsWhoAsksAndMayReject) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  Listener listener = Listener::open(domain).value();
  const auto exchanged = exchange::Listener::open(domain).value();
  EXPECT_GE(exchanged.event_descriptor(), 0);
  const std::string address = kit::own_address(domain.context());
  auto asked =
      std::async(std::launch::async, [&] { return connect(domain, address, listener.port()); });
  pollfd ready{.fd = listener.event_descriptor(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ready, 1, 10'000), 1);
  ConnectionRequest request = listener.next(std::chrono::seconds(10)).value();
  EXPECT_EQ(request.peer_address(), address);
  std::move(request).reject(std::as_bytes(std::span("no")));
  EXPECT_EQ(asked.get().error().status, Status::disconnected);
}

TEST(Result, HasTheShapeOfExpected) {
  const Result<int> two = 2;
  const Result<int> none = Failure{.status = Status::refused};
  const auto doubled = [](int value) -> Result<int> { return value * 2; };
  EXPECT_EQ(Result<int>(two).and_then(doubled).value(), 4);
  EXPECT_EQ(Result<int>(two).transform([](int value) { return value + 0.5; }).value(), 2.5);
  EXPECT_EQ(none.value_or(9), 9);
  EXPECT_EQ(Result<int>(none).or_else([](const Failure&) { return Result<int>(5); }).value(), 5);
  EXPECT_FALSE(none.has_value());
  EXPECT_TRUE(Result<void>().has_value());
  EXPECT_THROW(Result<void>(none.error()).value(), Error);
}

}  // namespace
}  // namespace verbatim
