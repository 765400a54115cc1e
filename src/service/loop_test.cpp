#include "service/loop.h"

#include <csignal>
#include <vector>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace verbatim::service {
namespace {

/// A loop whose clock the test has in hand.
struct LoopTest : testing::Test {
  TimeNs now = 0;
  std::unique_ptr<Loop> loop = Loop::create([this] { return now; }).value();
  UniqueFd event() { return UniqueFd(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }
};

/// Is due at a time, and says when it was served.
struct Alarm : Source {
  TimeNs due = kNever;
  bool stays_due = false;
  std::vector<TimeNs> served;
  TimeNs deadline() const override { return due; }
  void on_time(TimeNs now) override {
    served.push_back(now);
    if (!stays_due) due = kNever;
  }
};

TEST_F(LoopTest, ReadyDescriptorsAreServedEachTurnUntilTheyAreNot) {
  const UniqueFd fd = event();
  int calls = 0;
  ASSERT_TRUE(loop->watch(fd.get(), EPOLLIN, [&](std::uint32_t events, TimeNs) {
    EXPECT_EQ(events, static_cast<std::uint32_t>(EPOLLIN));
    ++calls;
  }));
  EXPECT_EQ(loop->turn(0), 1U);
  EXPECT_EQ(loop->turn(0), 1U);
  loop->change(fd.get(), 0);
  EXPECT_EQ(loop->turn(0), 0U);
  loop->change(fd.get(), EPOLLIN);
  loop->turn(0);
  EXPECT_EQ(calls, 3);
}

TEST_F(LoopTest, AFunctionMayUnwatchItsOwnDescriptorAndOthers) {
  const UniqueFd one = event(), other = event();
  int calls = 0;
  const auto once = [&](std::uint32_t, TimeNs) {
    ++calls;
    loop->unwatch(one.get());
    loop->unwatch(other.get());
  };
  ASSERT_TRUE(loop->watch(one.get(), EPOLLIN, once));
  ASSERT_TRUE(loop->watch(other.get(), EPOLLIN, once));
  EXPECT_EQ(loop->turn(0), 2U);
  EXPECT_EQ(calls, 1) << "the other's event is dropped";
  EXPECT_EQ(loop->turn(0), 0U);
}

TEST_F(LoopTest, AnEventIsNotForTheNextDescriptorOfThatNumber) {
  UniqueFd one = event(), other = event();
  int newcomers = 0;
  const auto replace = [&](std::uint32_t, TimeNs) {
    // Whichever comes first takes the other's place with a new descriptor of the same number.
    const int number = other.get();
    loop->unwatch(one.get());
    loop->unwatch(number);
    dup2(event().get(), number);
    ASSERT_TRUE(loop->watch(number, 0, [&](std::uint32_t, TimeNs) { ++newcomers; }));
  };
  ASSERT_TRUE(loop->watch(one.get(), EPOLLIN, replace));
  ASSERT_TRUE(loop->watch(other.get(), EPOLLIN, replace));
  EXPECT_EQ(loop->turn(0), 2U);
  EXPECT_EQ(newcomers, 0);
}

TEST_F(LoopTest, SourcesAreServedWhenTheyAreDueAndOnceATurn) {
  Alarm early, late, stuck;
  early.due = 10;
  late.due = 20;
  stuck.due = 5;
  stuck.stays_due = true;
  for (Alarm* one : {&early, &late, &stuck}) loop->add(*one);
  now = 10;
  loop->turn();
  EXPECT_EQ(early.served, std::vector<TimeNs>{10});
  EXPECT_TRUE(late.served.empty());
  now = 30;
  loop->turn();
  EXPECT_EQ(late.served, std::vector<TimeNs>{30});
  EXPECT_EQ(stuck.served, (std::vector<TimeNs>{10, 30})) << "its deadline does not move";
  loop->remove(stuck);
  loop->turn(0);
  EXPECT_EQ(stuck.served.size(), 2U);
}

TEST_F(LoopTest, ASourceMayRemoveAnother) {
  Alarm victim;
  struct Remover : Alarm {
    Loop* loop = nullptr;
    Source* victim = nullptr;
    void on_time(TimeNs now) override {
      Alarm::on_time(now);
      loop->remove(*victim);
    }
  } remover;
  remover.loop = loop.get();
  remover.victim = &victim;
  remover.due = victim.due = 1;
  loop->add(remover);
  loop->add(victim);
  now = 1;
  loop->turn(0);
  EXPECT_TRUE(victim.served.empty());
}

TEST_F(LoopTest, ASignalStopsIt) {
  ASSERT_TRUE(loop->watch_signals());
  EXPECT_FALSE(loop->should_stop());
  raise(SIGTERM);
  loop->run();
  EXPECT_TRUE(loop->should_stop());
}

}  // namespace
}  // namespace verbatim::service
