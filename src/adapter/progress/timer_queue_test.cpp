#include "adapter/progress/timer_queue.h"

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

using Taken = std::vector<std::pair<TimeNs, std::uint32_t>>;

struct TimerQueueTest : testing::Test {
  Taken take(TimeNs now) {
    std::vector<TimerQueue::Entry> due;
    queue_.take_due(now, due);
    Taken taken;
    for (const auto& entry : due) taken.emplace_back(entry.at, entry.task.value());
    return taken;
  }
  TimerQueue queue_;
};

TEST_F(TimerQueueTest, TakesEachTaskOnceAtItsEarliestDeadline) {
  for (const auto& [at, task] : Taken{{30, 1}, {10, 2}, {20, 3}, {10, 1}, {40, 3}}) {
    queue_.add({at, Qpn(task)});
  }
  EXPECT_EQ(take(9), Taken{});
  EXPECT_EQ(take(30), (Taken{{10, 1}, {10, 2}, {20, 3}}));
  EXPECT_EQ(queue_.earliest(), 40);
  EXPECT_EQ(take(40), (Taken{{40, 3}}));
  EXPECT_EQ(queue_.earliest(), kNever);
}

/// A cost that grew with the square of their number would take this test beyond its time-out.
TEST_F(TimerQueueTest, TakesAMillionTasksAtOnce) {
  constexpr std::uint32_t kTasks = 1'000'000;
  for (std::uint32_t task = 1; task <= kTasks; ++task) queue_.add({kTasks - task, Qpn(task)});
  EXPECT_EQ(take(kTasks).size(), kTasks);
}

}  // namespace
}  // namespace verbatim::adapter
