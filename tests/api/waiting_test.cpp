#include <chrono>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "test_util.h"

namespace verbatim {
namespace {

using kit::Pair;
using std::chrono::milliseconds;

/// Options of a queue pair whose completion queue sleeps without polling first.
ConnectOptions sleepy(const ProtectionDomain& domain) {
  ConnectOptions options;
  options.queue_pair.completions =
      CompletionQueue::make(domain.context(), {.spin = std::chrono::microseconds(0)}).value();
  return options;
}

TEST(Waiting, DoesNotSleepBeforeWhatHasCompleted) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  auto ends = kit::connect_both(domain, sleepy(domain));
  Buffer buffer = domain.allocate(4096).value();
  std::vector<RequestToken> tokens;
  for (int i = 0; i < 40; ++i)
    tokens.push_back(ends.first.write(buffer.slice(0, 8), buffer.token(8, 8)));
  const auto end = tokens.back().wait_for(std::chrono::seconds(10));
  EXPECT_TRUE(end) << end.error().message();
}

TEST(Waiting, ReturnsWhenTheTimeIsOverAndMayGoOn) {
  Pair pair;
  RequestToken received = pair.peer.receive(pair.there.slice(0, 8));
  const auto early = received.wait_for(milliseconds(1));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().status, Status::timed_out);
  EXPECT_EQ(early.error().operation, Operation::receive);
  EXPECT_EQ(pair.peer.completions().wait(milliseconds(1)), 0);
  ASSERT_TRUE(pair.asker.send(pair.here.slice(0, 8)).wait());
  EXPECT_TRUE(received.wait_for(std::chrono::seconds(10)));
}

TEST(Waiting, AnEventLoopSleepsOnTheDescriptor) {
  Pair pair;
  CompletionQueue completions = pair.peer.completions();
  RequestToken received = pair.peer.receive(pair.there.slice(0, 8));
  ASSERT_TRUE(completions.arm());
  pollfd ready{.fd = completions.event_descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&ready, 1, 0), 0);
  ASSERT_TRUE(pair.asker.send(pair.here.slice(0, 8)).wait());
  EXPECT_EQ(poll(&ready, 1, 10'000), 1);
  // Either it was taken, or `arm` reports it.
  EXPECT_FALSE(completions.arm());
  completions.poll();
  EXPECT_TRUE(received.done());
  ASSERT_TRUE(completions.arm());
  EXPECT_EQ(poll(&ready, 1, 0), 0) << "the event is still there";
}

}  // namespace
}  // namespace verbatim
