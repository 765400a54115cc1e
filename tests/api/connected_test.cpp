#include <gtest/gtest.h>

#include "test_util.h"

namespace verbatim {
namespace {

using kit::Pair;

TEST(Connected, WriteReadSend) {
  Pair pair;
  kit::put(pair.here, "written");
  const auto written = pair.asker.write(pair.here.slice(0, 7), pair.there.token()).wait();
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(written->operation, Operation::write);
  EXPECT_EQ(kit::text(pair.there, 7), "written");

  kit::put(pair.there, "remote", 100);
  ASSERT_TRUE(pair.asker.read(pair.here.slice(8, 6), pair.there.token(100, 6)).wait());
  EXPECT_EQ(kit::text(pair.here, 6, 8), "remote");

  RequestToken received = pair.peer.receive(pair.there.slice(200, 100));
  EXPECT_FALSE(received.poll());
  ASSERT_TRUE(pair.asker.send(pair.here.slice(0, 7), Immediate{0x01020304}).wait());
  const auto message = received.wait();
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->bytes, 7u);
  EXPECT_EQ(message->immediate, 0x01020304u);
  EXPECT_EQ(kit::text(pair.there, 7, 200), "written");
}

TEST(Connected, Atomics) {
  Pair pair;
  AtomicCell cell = pair.domain.allocate_atomic(5).value();
  AtomicCell before = pair.domain.allocate_atomic().value();
  ASSERT_TRUE(pair.asker.fetch_and_add(before.slice(), cell.token(), 3).wait());
  EXPECT_EQ(before.load(), 5u);
  ASSERT_TRUE(pair.asker.compare_and_swap(before.slice(), cell.token(), 8, 1).wait());
  EXPECT_EQ(before.load(), 8u);
  EXPECT_EQ(cell.load(), 1u);
}

TEST(Connected, TheFirstFailureNamesItselfAndTheOthersAreFlushed) {
  Pair pair;
  RegionToken wrong = pair.there.token();
  wrong.remote_key ^= 1;
  RequestToken first = pair.asker.write(pair.here.slice(0, 8), wrong);
  RequestToken second = pair.asker.write(pair.here.slice(0, 8), pair.there.token());
  const auto end = first.wait();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().status, Status::remote_access);
  EXPECT_NE(end.error().message().find("write on queue pair"), std::string::npos)
      << end.error().message();
  EXPECT_EQ(second.wait().error().status, Status::flushed);
  EXPECT_THROW(first.result().value(), Error);
}

TEST(Connected, BytesBeyondTheTokenAreRefusedBeforeTheyLeave) {
  Pair pair;
  const auto end = pair.asker.write(pair.here.slice(0, 9), pair.there.token(0, 8)).wait();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().status, Status::out_of_range);
  EXPECT_EQ(pair.asker.send(pair.here.slice(Pair::kBytes - 1, 2)).wait().error().status,
            Status::out_of_range);
  EXPECT_TRUE(pair.asker.is_connected());
}

TEST(Connected, RequestsWithoutATokenFillNoQueue) {
  Pair pair;
  for (int i = 0; i < 10'000; ++i) {
    auto posted = pair.asker.post_write(pair.here.slice(0, 8), pair.there.token());
    while (!posted && posted.error().status == Status::queue_full) {
      pair.asker.completions().wait();
      posted = pair.asker.post_write(pair.here.slice(0, 8), pair.there.token());
    }
    ASSERT_TRUE(posted) << i << ": " << posted.error().message();
  }
  ASSERT_TRUE(pair.asker.drain());
  EXPECT_EQ(pair.asker.in_flight(), 0u);
}

TEST(Connected, ATokenMayEndBeforeItsRequestAndItsBufferToo) {
  Pair pair;
  // Fewer than the queue has room for, so that no post waits.
  constexpr std::uint32_t kRequests = 100;
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    Buffer buffer = pair.domain.allocate(4096).value();
    static_cast<void>(pair.asker.write(buffer.slice(0, 8), pair.there.token()));
  }
  EXPECT_EQ(pair.asker.in_flight(), kRequests);
  const auto drained = pair.asker.drain();
  EXPECT_TRUE(drained) << drained.error().message();
}

Task<int> put_and_count(QueuePair& queue_pair, const Buffer& from, RemoteSlice to) {
  int done = 0;
  for (int i = 0; i < 10; ++i) {
    if (co_await queue_pair.write(from.slice(0, 8), to)) ++done;
  }
  co_return done;
}

TEST(Coroutine, AwaitsWrites) {
  Pair pair;
  EXPECT_EQ(run(pair.asker.completions(), put_and_count(pair.asker, pair.here, pair.there.token())),
            10);
}

Task<> wait_for_message(QueuePair& queue_pair, ProtectionDomain domain, bool& resumed) {
  Buffer own = domain.allocate(4096).value();
  static_cast<void>(co_await queue_pair.receive(own.slice()));
  resumed = true;
}

TEST(Coroutine, MayBeDestroyedWhileItsBufferIsPosted) {
  Pair pair;
  bool resumed = false;
  {
    Task<> task = wait_for_message(pair.peer, pair.domain, resumed);
    task.start();
    EXPECT_FALSE(task.done());
  }
  // The message still arrives in the buffer.
  const auto sent = pair.asker.send(pair.here.slice(0, 100)).wait();
  EXPECT_TRUE(sent) << sent.error().message();
  pair.peer.completions().poll();
  EXPECT_FALSE(resumed);
}

TEST(Callback, IsCalledOnceAlsoAtTheEndOfTheQueuePair) {
  int calls = 0;
  Status last = Status::success;
  {
    Pair pair;
    pair.asker.write(pair.here.slice(0, 8), pair.there.token()).then([&](const auto& end) {
      calls += end.has_value();
    });
    while (calls == 0) pair.asker.completions().wait();
    pair.peer.receive(pair.there.slice(0, 8)).then([&](const auto& end) {
      ++calls;
      last = end.error().status;
    });
  }
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(last == Status::cancelled || last == Status::flushed);
}

}  // namespace
}  // namespace verbatim
