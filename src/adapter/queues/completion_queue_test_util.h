#pragma once

#include <memory>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "adapter/queues/completion_queue.h"

/// Fixture of completion queue tests: an arena, a channel, and a queue of events.
namespace verbatim::adapter {

class CompletionQueueTest : public testing::Test {
 protected:
  CompletionQueueTest() {
    fcntl(channel_.fd(), F_SETFL, O_NONBLOCK);
    fcntl(async_events_.fd(), F_SETFL, O_NONBLOCK);
  }

  std::unique_ptr<CompletionQueue> make(std::uint32_t capacity) {
    return std::move(*CompletionQueue::create(
        *arena_,
        {.capacity = capacity, .channel = &channel_, .events = &async_events_, .owner = this}));
  }
  static bool push(CompletionQueue& queue, std::uint64_t wr_id, bool solicited = false,
                   CompletionStatus status = CompletionStatus::success) {
    return queue.push({.wr_id = wr_id, .status = status}, solicited);
  }
  static std::vector<std::uint64_t> poll(CompletionQueue& queue, std::size_t count) {
    std::vector<Completion> out(count);
    out.resize(queue.poll(out));
    std::vector<std::uint64_t> ids;
    for (const Completion& entry : out) ids.push_back(entry.wr_id);
    return ids;
  }
  /// Takes and acknowledges all events; returns their number.
  int events() {
    int count = 0;
    while (const auto queue = take_completion_event(channel_)) {
      (*queue)->acknowledge_events(1);
      ++count;
    }
    return count;
  }

  /// Takes all asynchronous events, each of which must be this queue's error; returns their number.
  int errors() {
    int count = 0;
    while (const auto event = async_events_.wait()) {
      EXPECT_EQ(event->type, AsyncEventType::cq_error);
      EXPECT_EQ(event->object, this);
      ++count;
    }
    return count;
  }

  std::unique_ptr<Arena> arena_ = std::move(*Arena::create());
  CompletionChannel channel_{*Semaphore::create()};
  AsyncEvents async_events_{*Semaphore::create()};
};

using Ids = std::vector<std::uint64_t>;

}  // namespace verbatim::adapter
