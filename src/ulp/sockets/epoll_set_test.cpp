#include "ulp/sockets/epoll_set.h"

#include <array>
#include <barrier>
#include <cerrno>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ulp/sockets/epoll_sets.h"

namespace verbatim::ulp::sockets {
namespace {

/// A socket whose readiness the test sets.
class Fake final : public Source {
 public:
  int handle() const override { return handle_.get(); }
  short look(short events) override {
    ++looks;
    return static_cast<short>(state & (events | POLLERR | POLLHUP));
  }
  void arm() override { armed_ = true; }
  bool armed() override { return armed_; }
  void wake() override {
    eventfd_t value = 0;
    eventfd_read(handle_.get(), &value);
    armed_ = false;
    if (on_wake) on_wake();
  }
  bool may_be_quick() override { return is_quick; }
  std::optional<std::shared_ptr<Source>> successor() override { return next; }

  /// The peer has done something; the adapter rings if it was asked to.
  void become(short events, TimeNs at = 0) {
    state = events;
    note_edge(at);
    if (armed_) eventfd_write(handle_.get(), 1);
  }

  /// Its handle is closed, but open in another process, and fires there.
  void lose() {
    eventfd_write(handle_.get(), 1);
    handle_.reset();
  }

  short state = 0;
  int looks = 0;
  bool is_quick = true;
  std::optional<std::shared_ptr<Source>> next;
  std::function<void()> on_wake;

 private:
  UniqueFd handle_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  bool armed_ = false;
};

constexpr int kFirst = 1'000;  // Numbers of no descriptors: the set does not use them.

struct EpollSetTest : testing::Test {
  std::shared_ptr<Fake> add(std::uint32_t events, int fd = kFirst) {
    auto source = std::make_shared<Fake>();
    EXPECT_EQ(set->add(fd, source, {.events = events, .data = {.fd = fd}}), 0);
    return source;
  }
  /// The events of each number, without waiting or with.
  std::vector<std::pair<int, std::uint32_t>> wait(int timeout_ms = 0, std::size_t most = 8) {
    std::vector<epoll_event> events(most);
    const int count = set->wait(events, timeout_ms, nullptr, epoll_pwait);
    std::vector<std::pair<int, std::uint32_t>> found;
    for (int i = 0; i < count; ++i) {
      const epoll_event event = events[static_cast<std::size_t>(i)];
      found.emplace_back(int{event.data.fd}, std::uint32_t{event.events});
    }
    return found;
  }

  using Found = std::vector<std::pair<int, std::uint32_t>>;
  UniqueFd program{epoll_create1(EPOLL_CLOEXEC)};
  std::shared_ptr<EpollSet> set = EpollSet::make(program.get());
};

TEST_F(EpollSetTest, LevelIsReportedAsLongAsItHolds) {
  const auto source = add(EPOLLIN | EPOLLRDHUP);
  EXPECT_EQ(wait(), Found{});
  source->become(POLLIN | POLLOUT);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN}}));
  source->become(POLLIN | POLLRDHUP | POLLHUP);
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN | EPOLLRDHUP | EPOLLHUP}}));
  source->state = 0;
  EXPECT_EQ(wait(), Found{});
}

TEST_F(EpollSetTest, AnEdgeIsReportedOnce) {
  const auto source = add(EPOLLIN | EPOLLET);
  source->become(POLLIN);
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN}}));
  EXPECT_EQ(wait(), Found{});
  source->become(POLLIN);
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN}}));
  EXPECT_EQ(set->modify(kFirst, {.events = EPOLLIN | EPOLLET, .data = {.fd = kFirst}}), 0);
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN}}));
}

TEST_F(EpollSetTest, OneShotIsReportedOnceUntilItIsSetAgain) {
  const auto source = add(EPOLLIN | EPOLLONESHOT);
  source->become(POLLIN);
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN}}));
  source->become(POLLIN | POLLHUP);
  EXPECT_EQ(wait(), Found{});
  EXPECT_EQ(set->modify(kFirst, {.events = EPOLLIN, .data = {.fd = kFirst}}), 0);
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN | EPOLLHUP}}));
}

TEST_F(EpollSetTest, WhatBecameReadyFirstIsReportedFirst) {
  const auto first = add(EPOLLIN, kFirst), second = add(EPOLLIN, kFirst + 1),
             third = add(EPOLLIN, kFirst + 2);
  second->become(POLLIN, 10);
  first->become(POLLIN, 20);
  third->become(POLLIN, 15);
  EXPECT_EQ(wait(), (Found{{kFirst + 1, EPOLLIN}, {kFirst + 2, EPOLLIN}, {kFirst, EPOLLIN}}));
  second->become(POLLIN, 30);
  EXPECT_EQ(wait(), (Found{{kFirst + 2, EPOLLIN}, {kFirst, EPOLLIN}, {kFirst + 1, EPOLLIN}}));
}

TEST_F(EpollSetTest, OtherDescriptorsAreReportedBesideASourceThatIsAlwaysReady) {
  const auto source = add(EPOLLOUT);
  source->become(POLLOUT);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  epoll_event event{.events = EPOLLIN, .data = {.fd = ends[0]}};
  ASSERT_EQ(epoll_ctl(program.get(), EPOLL_CTL_ADD, ends[0], &event), 0);
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  bool seen = false;
  for (int i = 0; i < 20 && !seen; ++i) {
    for (const auto& [number, events] : wait(0, 1)) seen |= number == ends[0];
  }
  EXPECT_TRUE(seen);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(EpollSetTest, MoreReadySourcesThanFitAreReportedInTurn) {
  std::vector<std::shared_ptr<Fake>> sources;
  for (int i = 0; i < 3; ++i) sources.push_back(add(EPOLLIN, kFirst + i));
  for (const auto& source : sources) source->become(POLLIN);
  std::array<int, 3> times{};
  for (int i = 0; i < 6; ++i) ++times[static_cast<std::size_t>(wait(0, 1).at(0).first - kFirst)];
  EXPECT_EQ(times, (std::array{2, 2, 2}));
}

TEST_F(EpollSetTest, ASleeperIsWokenByTheHandle) {
  const auto source = add(EPOLLIN);
  std::thread peer([&] {
    while (!source->armed()) std::this_thread::yield();
    source->become(POLLIN);
  });
  EXPECT_EQ(wait(-1), (Found{{kFirst, EPOLLIN}}));
  peer.join();
}

TEST_F(EpollSetTest, ASleeperHearsOfASourceThatIsAdded) {
  add(EPOLLIN);
  const auto other = std::make_shared<Fake>();
  other->state = POLLIN;
  std::thread adder([&] { set->add(kFirst + 1, other, {.events = EPOLLIN, .data = {.fd = 7}}); });
  EXPECT_EQ(wait(-1), (Found{{7, EPOLLIN}}));
  adder.join();
}

TEST_F(EpollSetTest, AColdSourceIsNotLookedAt) {
  const auto quiet = add(EPOLLIN, kFirst);
  const auto busy = add(EPOLLIN, kFirst + 1);
  busy->become(POLLIN);
  for (int i = 0; i < 200; ++i) wait();
  const int looks = quiet->looks;
  for (int i = 0; i < 200; ++i) wait();
  EXPECT_EQ(quiet->looks, looks);
  quiet->become(POLLIN);  // As if another thread had taken the event: the handle tells nothing.
  quiet->wake();
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN}, {kFirst + 1, EPOLLIN}}));
}

TEST_F(EpollSetTest, AWaitForWhatOnlyOtherThreadsBringSleepsAtOnce) {
  const auto source = add(EPOLLIN);
  source->is_quick = false;
  EXPECT_EQ(wait(1), Found{});
  EXPECT_LE(source->looks, 4);  // Two before it is armed, one after that, one after the sleep.
}

TEST_F(EpollSetTest, CallsFailAsTheKernelsDo) {
  const auto source = add(EPOLLIN);
  EXPECT_EQ(set->add(kFirst, source, {}), EEXIST);
  EXPECT_EQ(set->modify(kFirst + 1, {}), ENOENT);
  EXPECT_EQ(set->remove(kFirst + 1), ENOENT);
  EXPECT_EQ(set->remove(kFirst), 0);
  source->become(POLLIN);
  EXPECT_EQ(wait(), Found{});
  EXPECT_EQ(EpollSet::make(-1), nullptr);
}

TEST_F(EpollSetTest, ASourceThatIsRemovedAndAddedAgainWakesASleeper) {
  const auto source = add(EPOLLIN);
  for (const bool fires_between : {false, true}) {
    EXPECT_EQ(set->remove(kFirst), 0);
    source->arm();
    if (fires_between) source->become(POLLIN);
    EXPECT_EQ(wait(20), Found{});
    source->state = 0;
    source->wake();
    EXPECT_EQ(set->add(kFirst, source, {.events = EPOLLIN, .data = {.fd = kFirst}}), 0);
    std::thread peer([&] {
      while (!source->armed()) std::this_thread::yield();
      source->become(POLLIN);
    });
    EXPECT_EQ(wait(-1), (Found{{kFirst, EPOLLIN}}));
    peer.join();
  }
}

TEST_F(EpollSetTest, ARemovedSourceIsForgottenWithItsNumber) {
  const auto closed = add(EPOLLIN);
  const auto other = add(EPOLLIN, kFirst + 1);
  set->remove(kFirst);
  set->remove(kFirst + 1);
  set->close(kFirst);
  set->forget(*other);
  EXPECT_EQ(closed.use_count(), 1);
  EXPECT_EQ(other.use_count(), 1);
}

TEST_F(EpollSetTest, ASetThatAChildHasInheritedIsNotReported) {
  const auto lost = add(EPOLLIN);
  const auto other = add(EPOLLIN, kFirst + 1);
  EXPECT_EQ(wait(), Found{});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) pause();
  }
  lost->lose();
  set->forget(*lost);
  EXPECT_EQ(wait(), Found{});  // Makes the inner set anew; the child has the one before.
  other->arm();
  other->become(0);
  EXPECT_EQ(wait(), Found{});
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(EpollSetTest, ASuccessorKeepsTheEvents) {
  const auto before = add(EPOLLIN);
  const auto after = std::make_shared<Fake>();
  after->state = POLLIN;
  before->next = after;
  EXPECT_EQ(wait(), (Found{{kFirst, EPOLLIN}}));
  set->forget(*after);
  EXPECT_FALSE(set->has(kFirst));
  // One that the kernel can watch after all.
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  add(EPOLLIN, ends[0])->next = nullptr;
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_EQ(wait(), (Found{{ends[0], EPOLLIN}}));
  close(ends[0]);
  close(ends[1]);
}

/// Sources of two sets become others while each set's thread holds its own lock.
TEST(EpollSets, SourcesOfTwoSetsBecomeOthersAtTheSameTime) {
  const auto wait_for_all = [](const std::function<void()>& meet) {
    const UniqueFd program(epoll_create1(EPOLL_CLOEXEC));
    const auto set = find_or_make_set(program.get());
    const auto before = std::make_shared<Fake>();
    const auto after = std::make_shared<Fake>();
    after->state = POLLIN;
    before->on_wake = [&] {
      meet();
      before->next = after;
    };
    set->add(kFirst, before, {.events = EPOLLIN, .data = {.fd = 7}});
    before->arm();
    before->become(0);
    std::array<epoll_event, 8> events;
    EXPECT_EQ(set->wait(events, -1, nullptr, epoll_pwait), 1);
    drop_set(program.get());
  };
  std::barrier both(2);
  std::thread other([&] { wait_for_all([&] { both.arrive_and_wait(); }); });
  wait_for_all([&] { both.arrive_and_wait(); });
  other.join();
}

TEST(EpollSets, AreFoundByTheirDescriptors) {
  const UniqueFd program(epoll_create1(EPOLL_CLOEXEC));
  EXPECT_EQ(find_set(program.get()), nullptr);
  const auto set = find_or_make_set(program.get());
  EXPECT_EQ(find_or_make_set(program.get()), set);
  duplicate_set(program.get(), kFirst);
  EXPECT_EQ(find_set(kFirst), set);
  drop_set(program.get());
  EXPECT_EQ(find_set(program.get()), nullptr);
  drop_set(kFirst);
  EXPECT_EQ(set.use_count(), 1);
}

}  // namespace
}  // namespace verbatim::ulp::sockets
