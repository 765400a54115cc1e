#include "adapter/progress/progress.h"

#include <atomic>
#include <future>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

namespace verbatim::adapter {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

/// Counts its calls.
class Counting final : public Task {
 public:
  void transmit_output(TimeNs /*now*/) override { ++outputs; }
  void on_timer(TimeNs /*now*/) override { timer.set_value(); }
  std::atomic<int> outputs{0};
  std::promise<void> timer;
};

class ByNumber final : public Tasks {
 public:
  Task* find_task(Qpn number) const override {
    const auto found = tasks.find(number);
    return found == tasks.end() ? nullptr : found->second;
  }
  std::map<Qpn, Task*> tasks;
};

/// Has input once a descriptor is written.
class Eventful final : public Source {
 public:
  std::size_t receive(TimeNs /*now*/) override {
    ++turns;
    eventfd_t value = 0;
    if (eventfd_read(event.get(), &value) != 0) return 0;
    received.set_value();
    return 1;
  }
  UniqueFd event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<int> turns{0};
  std::promise<void> received;
};

/// As a link in shared memory: says before a thread sleeps that something has come, and notes who
/// received it.
class Attended final : public Source {
 public:
  std::size_t receive(TimeNs /*now*/) override {
    eventfd_t value = 0;
    if (eventfd_read(event.get(), &value) != 0) return 0;
    receivers.insert(std::this_thread::get_id());
    return 1;
  }
  bool begin_sleep() override {
    pollfd readable{.fd = event.get(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 0) == 0;
  }
  UniqueFd event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::set<std::thread::id> receivers;
};

class ProgressTest : public testing::Test {
 protected:
  void SetUp() override { make({}); }
  void make(ProgressOptions options) {
    progress.reset();
    auto made = Progress::create(tasks, std::move(options));
    ASSERT_TRUE(made) << made.error().text;
    progress = std::move(*made);
  }
  ByNumber tasks;
  Counting task;
  Eventful source;
  std::unique_ptr<Progress> progress;  // Last, because its thread uses the source.
};

TEST_F(ProgressTest, TheBackgroundThreadReceivesWhereNobodyPolls) {
  progress->add(source);
  ASSERT_TRUE(progress->listen(source.event.get()));
  eventfd_write(source.event.get(), 1);
  EXPECT_EQ(std::future_status::ready, source.received.get_future().wait_for(kPatience));
}

TEST_F(ProgressTest, APollAsksEachSourceOnce) {
  Eventful other;
  progress->add(source);
  progress->add(other);
  while (!progress->poll()) std::this_thread::yield();
  EXPECT_EQ(1, source.turns);
  EXPECT_EQ(1, other.turns);
  progress.reset();
}

/// But the background thread serves its timers; after that it has gone round once.
TEST_F(ProgressTest, AProgramThatAttendsReceivesAllByItself) {
  const int descriptor = progress->attend();
  tasks.tasks[Qpn(2)] = &task;
  progress->arm_timer(monotonic_now() + kMillisecond, Qpn(2));
  ASSERT_EQ(std::future_status::ready, task.timer.get_future().wait_for(kPatience));
  Attended attended;
  progress->add(attended);
  ASSERT_TRUE(progress->listen(attended.event.get()));
  for (int i = 0; i < 100; ++i) {
    eventfd_write(attended.event.get(), 1);
    pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
    ASSERT_EQ(1, ::poll(&readable, 1, -1));
    progress->serve_events();
    EXPECT_TRUE(attended.begin_sleep()) << "something was left when the program went to sleep";
  }
  EXPECT_EQ(std::set{std::this_thread::get_id()}, attended.receivers);
  progress.reset();
}

TEST_F(ProgressTest, OutputIsSentOnceHoweverOftenItWasNoted) {
  progress->note_output(task);
  progress->note_output(task);
  EXPECT_TRUE(progress->is_due());
  progress->finish_turn();
  EXPECT_EQ(1, task.outputs);
  progress->note_output(task);
  progress->finish_turn();
  EXPECT_EQ(2, task.outputs);
}

TEST_F(ProgressTest, AForgottenTaskSendsNothing) {
  progress->note_output(task);
  progress->forget(task);
  progress->finish_turn();
  EXPECT_EQ(0, task.outputs);
}

TEST_F(ProgressTest, ATimerFindsItsTaskByNumber) {
  tasks.tasks[Qpn(2)] = &task;
  progress->arm_timer(monotonic_now(), Qpn(1));  // No such task exists.
  progress->arm_timer(monotonic_now() + kMillisecond, Qpn(2));
  EXPECT_EQ(std::future_status::ready, task.timer.get_future().wait_for(kPatience));
}

/// Is due at once again, whenever it is served.
class Insatiable final : public Task {
 public:
  explicit Insatiable(std::unique_ptr<Progress>& progress) : progress_(progress) {}
  void transmit_output(TimeNs /*now*/) override {}
  void on_timer(TimeNs now) override {
    ++served;
    progress_->arm_timer(now, Qpn(1));
    progress_->arm_timer(now - 1, Qpn(1));
  }
  int served = 0;

 private:
  std::unique_ptr<Progress>& progress_;
};

TEST_F(ProgressTest, APassServesATaskOnceWhateverDeadlineItHas) {
  Insatiable insatiable(progress);
  tasks.tasks[Qpn(1)] = &insatiable;
  int before = 0;
  progress->between_passes([&] { progress->arm_timer(1, Qpn(1)); });
  for (int pass = 0; pass < 3; ++pass) {
    while (!progress->poll()) std::this_thread::yield();
    // The background thread may have run passes, too, but each of them has ended.
    progress->between_passes([&] {
      EXPECT_GT(insatiable.served, before);
      before = insatiable.served;
    });
  }
  progress.reset();
}

/// Has so many batches, and tells in which the timer was served.
class Flood final : public Source {
 public:
  explicit Flood(int batches) : left(batches) {}
  std::size_t receive(TimeNs /*now*/) override {
    if (left == 0) return 0;
    --left;
    return 1;
  }
  std::atomic<int> left;
};

class AfterFlood final : public Task {
 public:
  explicit AfterFlood(Flood& flood) : flood_(flood) {}
  void transmit_output(TimeNs /*now*/) override {}
  void on_timer(TimeNs /*now*/) override { left_when_served.set_value(flood_.left); }
  std::promise<int> left_when_served;

 private:
  Flood& flood_;
};

TEST_F(ProgressTest, TimersAreServedWhenTheSourcesAreEmpty) {
  Flood flood(0);
  AfterFlood after(flood);
  tasks.tasks[Qpn(1)] = &after;
  progress->add(flood);
  progress->between_passes([&] {
    flood.left = 10;
    progress->arm_timer(1, Qpn(1));
  });
  while (!progress->poll()) std::this_thread::yield();
  EXPECT_EQ(0, after.left_when_served.get_future().get());
  progress.reset();
}

TEST_F(ProgressTest, AFloodDoesNotHoldUpTimers) {
  constexpr int kMany = 1'000'000'000;
  Flood flood(kMany);
  AfterFlood after(flood);
  tasks.tasks[Qpn(1)] = &after;
  progress->add(flood);
  progress->arm_timer(1, Qpn(1));
  while (!progress->poll()) std::this_thread::yield();
  const int left = after.left_when_served.get_future().get();
  EXPECT_GT(left, 0);
  progress.reset();
}

TEST_F(ProgressTest, TheThreadHasBegunWhenCreateReturns) {
  std::atomic<bool> begun{false};
  std::promise<void> heard;
  const UniqueFd event(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  const auto on_event = [&] {
    eventfd_t value = 0;
    if (eventfd_read(event.get(), &value) == 0) heard.set_value();
  };
  make({.event_fd = event.get(), .on_event = on_event, .thread_begins = [&] { begun = true; }});
  EXPECT_TRUE(begun);
  EXPECT_EQ(std::future_status::ready, heard.get_future().wait_for(kPatience));
  progress.reset();
}

}  // namespace
}  // namespace verbatim::adapter
