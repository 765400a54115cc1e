#pragma once

#include <utility>

#include "adapter/adapter_test_util.h"
#include "adapter/progress/progress.h"
#include "adapter/services/stream/stream_connection.h"
#include "link/tcp/tcp_test_util.h"

/// Two queue pairs over iWARP, of two adapters in one process.
namespace verbatim::adapter {

using cm::MpaParameters;

inline constexpr std::uint32_t kAccess =
    region::kRemoteWrite | region::kRemoteRead | region::kRemoteAtomic;

class StreamPair : public AdapterPair {
 protected:
  explicit StreamPair(TestNode::Path path = TestNode::Path::wire)
      : AdapterPair(path, kRnrGrace, TestNode::Protocol::iwarp) {}

  static Result<void> start_stream(Side& side, StreamStart start) {
    return side.node.adapter->start_stream(side.qp->number(), std::move(start));
  }

  static void prepare(Side& side) {
    QueuePairAttributes attributes;
    attributes.state = QpState::init;
    attributes.access = kAccess;
    ASSERT_TRUE(side.qp->modify(attributes, kState | kPKeyIndex | kPort | kAccessFlags));
  }
  void connect(const MpaParameters& agreement = {.inbound_reads = 4, .outbound_reads = 4}) {
    prepare(left);
    prepare(right);
    link::TcpPair tcp;
    MpaParameters there = agreement;
    std::swap(there.sends_markers, there.receives_markers);
    const auto passive =
        start_stream(right, {.socket = std::move(tcp.passive), .agreement = there});
    ASSERT_TRUE(passive) << passive.error().text;
    const auto active = start_stream(
        left, {.socket = std::move(tcp.active), .agreement = agreement, .is_initiator = true});
    ASSERT_TRUE(active) << active.error().text;
  }
  void receive(Side& side, std::size_t offset, std::uint32_t length) {
    const Segment segment = side.segment(offset, length);
    ASSERT_EQ(0, side.qp->post_receive(77, std::span(&segment, 1)));
  }
  bool is_same(std::size_t here, std::size_t there, std::size_t length) const {
    return std::equal(left.memory.begin() + static_cast<std::ptrdiff_t>(here),
                      left.memory.begin() + static_cast<std::ptrdiff_t>(here + length),
                      right.memory.begin() + static_cast<std::ptrdiff_t>(there));
  }
  /// WRITE, SEND, READ and both atomics.
  void move_bytes() {
    constexpr std::uint32_t kLength = 300'001;
    fill(left, 0, kLength, 1);
    ASSERT_EQ(0, left.post(Operation::write, left.segment(0, kLength), &right, 5));
    ASSERT_EQ(Status::success, left.next().status);

    receive(right, 400'000, kLength);
    ASSERT_EQ(0, left.post(Operation::send, left.segment(0, kLength)));
    const Completion received = right.next();
    EXPECT_EQ(77u, received.wr_id);
    EXPECT_EQ(kLength, received.byte_count);
    EXPECT_TRUE(is_same(0, 5, kLength));
    EXPECT_TRUE(is_same(0, 400'000, kLength));
    ASSERT_EQ(Status::success, left.next().status);

    ASSERT_EQ(0, left.post(Operation::read, left.segment(500'000, kLength), &right, 5));
    ASSERT_EQ(Status::success, left.next().status);
    EXPECT_TRUE(is_same(500'000, 5, kLength));

    auto& word = *reinterpret_cast<std::uint64_t*>(right.memory.data() + 900'000);
    word = 40;
    ASSERT_EQ(0, left.post(Operation::fetch_and_add, left.segment(900'000, 8), &right, 900'000, 2));
    ASSERT_EQ(Status::success, left.next().status);
    ASSERT_EQ(0, left.post(Operation::compare_and_swap, left.segment(900'000, 8), &right, 900'000,
                           42, 7));
    ASSERT_EQ(Status::success, left.next().status);
    EXPECT_EQ(7u, word);
    EXPECT_EQ(42u, *reinterpret_cast<std::uint64_t*>(left.memory.data() + 900'000));
  }

  /// Returns when the left program's polls run the passes: then its posts may gather.
  void poll_until_rest() {
    do {
      ASSERT_EQ(0, left.post(Operation::read, left.segment(500'000, 8), &right, 0));
      ASSERT_EQ(Status::success, left.next().status);
    } while (!a.adapter->progress().is_polled());
  }

  Side left{a, QpType::rc};
  Side right{b, QpType::rc};
};

}  // namespace verbatim::adapter
