#include "adapter/queue_pair/core/send_places.h"

#include <array>
#include <random>

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

/// Two queue pairs share a completion queue that is exactly as large as both, in any order of
/// posts, polls and RESETs. `Sender` says of each place what SendPlaces should.
struct SharedQueueTest : CompletionQueueTest {
  static constexpr std::uint32_t kCapacity = 4;
  struct Sender {
    std::uint32_t qpn;
    SendPlaces places{kCapacity, std::pmr::new_delete_resource()};
    std::size_t posted = 0;
    std::size_t polled = 0;
  };

  void post(Sender& sender) {
    const bool has_room = sender.posted - sender.polled < kCapacity;
    ASSERT_EQ(has_room, sender.places.has_room(1, *queue_));
    if (!has_room) return;
    sender.places.take();
    std::uint64_t entry = 0;
    ASSERT_TRUE(queue_->push({.wr_id = ++sender.posted, .qpn = sender.qpn}, false, &entry));
    sender.places.complete(entry);
  }
  void poll_some(std::size_t count) {
    queue_->poll(count, [this](const Completion& entry) {
      (entry.qpn == 0 ? senders_[0] : senders_[1]).polled = entry.wr_id;
    });
  }
  void reset(Sender& sender) {
    queue_->forget(Qpn(sender.qpn));
    sender.places.clear();
    sender.posted = sender.polled = 0;
  }

  std::unique_ptr<CompletionQueue> queue_ = make(2 * kCapacity);
  std::array<Sender, 2> senders_{Sender{.qpn = 0}, Sender{.qpn = 1}};
};

TEST_F(SharedQueueTest, NeitherOverrunsNorLosesAPlaceWhenOneIsReset) {
  std::mt19937 random(39);
  const auto below = [&random](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  for (int steps = 0; steps < 20'000 && !HasFatalFailure(); ++steps) {
    Sender& sender = senders_[below(2)];
    const unsigned kind = below(8);
    if (kind < 5) {
      post(sender);
    } else if (kind < 7) {
      poll_some(below(4));
    } else {
      reset(sender);
    }
  }
}

}  // namespace
}  // namespace verbatim::adapter
