#include "adapter/queue_pair/core/send_places.h"

#include <gtest/gtest.h>

#include "adapter/queues/completion_queue_test_util.h"

namespace verbatim::adapter {
namespace {

class SendPlacesTest : public CompletionQueueTest {
 protected:
  /// Posts a request that completes at once.
  bool post(bool signaled) {
    if (!places_.has_room(1, *queue_)) return false;
    places_.take();
    std::uint64_t entry = 0;
    if (!signaled) {
      places_.complete();
    } else if (queue_->push({}, false, &entry)) {
      places_.complete(entry);
    }
    return true;
  }
  /// Returns how many requests the queue takes until it is full.
  int fill(bool signaled = true) {
    int posted = 0;
    while (posted < 100 && post(signaled)) ++posted;
    return posted;
  }

  std::unique_ptr<CompletionQueue> queue_ = make(64);
  SendPlaces places_{5, std::pmr::new_delete_resource()};
};

TEST_F(SendPlacesTest, AreFreeWhenTheirCompletionsArePolled) {
  EXPECT_EQ(fill(), 5);
  for (const int polled : {1, 3, 5, 2}) {
    poll(*queue_, static_cast<std::size_t>(polled));
    EXPECT_EQ(fill(), polled);
  }
}

TEST_F(SendPlacesTest, ALaterCompletionFreesThoseBeforeIt) {
  for (const bool signaled : {false, false, true, false, true}) EXPECT_TRUE(post(signaled));
  EXPECT_FALSE(post(true));
  poll(*queue_, 1);
  EXPECT_EQ(fill(), 3);
}

TEST_F(SendPlacesTest, WithoutAnyCompletionTheyStayTaken) {
  EXPECT_EQ(fill(false), 5);
  EXPECT_EQ(fill(), 0);
  places_.clear();  // RESET.
  EXPECT_EQ(fill(), 5);
}

TEST_F(SendPlacesTest, ThoseOfRequestsThatHaveNotCompletedStayTaken) {
  places_.take();
  EXPECT_EQ(fill(), 4);  // The oldest one completes first: these are its and three others.
  poll(*queue_, 4);
  EXPECT_EQ(fill(), 4);
}

TEST_F(SendPlacesTest, OtherQueuePairsCompletionsFreeNone) {
  push(*queue_, 7);
  EXPECT_EQ(fill(), 5);
  push(*queue_, 8);
  poll(*queue_, 1);
  EXPECT_EQ(fill(), 0);
  poll(*queue_, 1);
  EXPECT_EQ(fill(), 1);
}

TEST_F(SendPlacesTest, HoldForManyRequestsAtOnce) {
  EXPECT_TRUE(places_.has_room(5, *queue_));
  EXPECT_FALSE(places_.has_room(6, *queue_));
  EXPECT_EQ(fill(), 5);
  poll(*queue_, 2);
  EXPECT_TRUE(places_.has_room(2, *queue_));
  EXPECT_FALSE(places_.has_room(3, *queue_));
}

}  // namespace
}  // namespace verbatim::adapter
