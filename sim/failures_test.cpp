#include <gtest/gtest.h>

#include "sim/pair.h"

/// Both engines when a request cannot succeed: the status at the sender and the peer's state; no
/// run hangs.
namespace verbatim::sim {
namespace {

using transport::Operation;
using transport::SendRequest;
using transport::Slot;
using transport::Status;

class Failure : public testing::Test {
 protected:
  Pair& start(const PairOptions& options, const Faults& faults = {}) {
    pair_.emplace(options, faults, 1);
    (*pair_)[0].on_completed = [this](Slot, Status status) { statuses_.push_back(status); };
    return *pair_;
  }
  SendRequest write_to(std::size_t offset, std::size_t length) {
    return {.operation = Operation::write,
            .length = length,
            .remote_address = Node::remote_address(offset),
            .remote_key = (*pair_)[1].key()};
  }
  /// Posts a good request, the bad one and another, and checks their status.
  void expect(SendRequest bad, Status status) {
    Pair& pair = *pair_;
    pair[0].post(write_to(0, 8), {0, 8});
    pair[0].post(bad, {0, bad.length});
    pair[0].post(write_to(0, 8), {0, 8});
    EXPECT_TRUE(pair.run_until_complete());
    EXPECT_EQ(statuses_, (std::vector{Status::success, status, Status::flushed}));
    pair[0].sends().finish();
    EXPECT_EQ(pair[0].sends().violations(), Violations{});
  }

  std::optional<Pair> pair_;
  std::vector<Status> statuses_;
};

TEST_F(Failure, WrongKey) {
  start({});
  SendRequest bad = write_to(0, 8);
  bad.remote_key = MemoryKey{raw(bad.remote_key) + 1};
  expect(bad, Status::remote_access_error);
  EXPECT_TRUE((*pair_)[1].responder_failed());
}
TEST_F(Failure, OutOfBounds) {
  const std::size_t memory_bytes = start({})[1].memory().size();
  expect(write_to(memory_bytes - 4, 8), Status::remote_access_error);
}
TEST_F(Failure, QueuePairDoesNotAllowReads) {
  start({.access = region::kRemoteWrite});
  SendRequest bad = write_to(0, 8);
  bad.operation = Operation::read;
  expect(bad, Status::remote_invalid_request);
}
TEST_F(Failure, AtomicIsNotAligned) {
  start({});
  SendRequest bad = write_to(4, 8);
  bad.operation = Operation::fetch_and_add;
  expect(bad, Status::remote_invalid_request);
}
TEST_F(Failure, ReceiveIsTooSmall) {
  start({})[1].post_receive({0, 4});
  SendRequest bad = write_to(0, 8);
  bad.operation = Operation::send;
  expect(bad, Status::remote_invalid_request);
  EXPECT_EQ((*pair_)[1].receive_failures(), (std::vector{Status::local_length_error}));
}
TEST_F(Failure, NoReceiveIsPosted) {
  start({.rnr_retry = 3});
  SendRequest bad = write_to(0, 8);
  bad.operation = Operation::send;
  expect(bad, Status::rnr_retry_exceeded);
  EXPECT_FALSE((*pair_)[1].responder_failed());
}
TEST_F(Failure, OwnMemoryRefusesToBeSent) {
  start({})[0].bad_local_memory = 1;
  expect(write_to(0, 5000), Status::local_protection_error);
}
TEST_F(Failure, OwnMemoryRefusesWhatIsRead) {
  start({})[0].bad_local_memory = 1;
  SendRequest bad = write_to(0, 8);
  bad.operation = Operation::read;
  expect(bad, Status::local_protection_error);
}
TEST_F(Failure, OwnMemoryRefusesTheResultOfAnAtomic) {
  start({})[0].bad_local_memory = 1;
  SendRequest bad = write_to(0, 8);
  bad.operation = Operation::compare_and_swap;
  expect(bad, Status::local_protection_error);
}

TEST_F(Failure, PeerIsGone) {
  Pair& pair = start({.timeout = 14, .retry_count = 7}, {.loss = 1});
  for (int i = 0; i < 3; ++i) pair[0].post(write_to(0, 8), {0, 8});
  const TimeNs begin = pair.now();
  EXPECT_TRUE(pair.run_until_complete());
  EXPECT_EQ(statuses_, (std::vector{Status::retry_exceeded, Status::flushed, Status::flushed}));
  // The first transmission waits for one ACK time-out; of the seven repetitions the first waits
  // twice as long, the others four times.
  EXPECT_EQ(pair.now() - begin, (1 + 2 + 6 * 4) * (TimeNs{4096} << 14));
}

TEST_F(Failure, ReceivePostedLateServesTheSend) {
  Pair& pair = start({.min_rnr_timer = 12});
  SendRequest send = write_to(0, 8);
  send.operation = Operation::send;
  pair[0].post(send, {0, 8});
  pair.at(pair.now() + 20 * kMillisecond, [&pair] { pair[1].post_receive({100, 8}); });
  EXPECT_TRUE(pair.run_until_complete());
  EXPECT_EQ(statuses_, (std::vector{Status::success}));
}

}  // namespace
}  // namespace verbatim::sim
