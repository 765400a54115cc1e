#include "adapter/queues/tag_matching.h"

#include <array>
#include <cerrno>

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

using transport::Status;
using Kind = TagOperation::Kind;
using Taken = TagMatching::Taken;

/// A list, and the receives that messages take from it.
class TagMatchingTest : public testing::Test {
 protected:
  TagMatching::Outcome add(std::uint64_t tag, std::uint64_t mask = ~0ULL,
                           std::optional<std::uint32_t> handled = std::nullopt) {
    const Segment segment{.address = tag, .length = 10};
    const auto outcome = list_.carry_out({.kind = Kind::add,
                                          .handled = handled,
                                          .receive_wr_id = tag + 100,
                                          .tag = tag,
                                          .mask = mask,
                                          .segments = {&segment, 1}});
    EXPECT_TRUE(outcome);
    return *outcome;
  }
  Status remove(std::uint32_t handle) {
    return list_.carry_out({.kind = Kind::remove, .handle = handle})->status;
  }
  bool synchronize(std::uint32_t handled) {
    return !list_.carry_out({.kind = Kind::synchronize, .handled = handled})->must_synchronize;
  }
  Taken take(std::uint64_t tag, bool may_match = true) {
    return list_.take(tag, may_match, taken_, [this] { return has_untagged_; });
  }
  TagMatching list_{4};
  ReceiveRequest taken_;
  bool has_untagged_ = true;
};

TEST_F(TagMatchingTest, TheOldestThatMatchesUnderItsMaskIsTakenOnce) {
  add(0x12);
  add(0x10, 0xf0);
  add(0x12);
  ASSERT_EQ(take(0x13), Taken::tagged);
  EXPECT_EQ(taken_.wr_id, 0x10u + 100);
  EXPECT_EQ(taken_.capacity_bytes, 10u);
  ASSERT_EQ(taken_.segment_count, 1u);
  EXPECT_EQ(taken_.segments[0].address, 0x10u);
  EXPECT_EQ(take(0x12), Taken::tagged);
  EXPECT_EQ(take(0x12), Taken::tagged);
  EXPECT_EQ(take(0x12), Taken::untagged);
}

TEST_F(TagMatchingTest, WhatIsFullTakesNoMore) {
  for (std::uint64_t i = 0; i < 4; ++i) add(i);
  EXPECT_EQ(list_.carry_out({.kind = Kind::add}).error(), ENOMEM);
  ASSERT_EQ(take(2), Taken::tagged);
  add(5);
  const std::array<Segment, kSegmentsMax + 1> many{};
  ASSERT_EQ(take(5), Taken::tagged);
  EXPECT_EQ(list_.carry_out({.kind = Kind::add, .segments = many}).error(), EINVAL);
}

TEST_F(TagMatchingTest, AHandleNamesATagUntilItIsTakenOrRemoved) {
  const std::uint32_t first = add(1).handle;
  EXPECT_EQ(remove(first), Status::success);
  EXPECT_EQ(remove(first), Status::tag_matching_error);
  EXPECT_EQ(take(1), Taken::untagged);
  ASSERT_TRUE(synchronize(1));
  const std::uint32_t second = add(2).handle;  // In the same entry.
  EXPECT_EQ(remove(first), Status::tag_matching_error);
  EXPECT_EQ(take(2), Taken::tagged);
  EXPECT_EQ(remove(second), Status::tag_matching_error);
}

TEST_F(TagMatchingTest, AfterAnUnexpectedMessageNewTagsWaitUntilItIsHandled) {
  add(1);
  EXPECT_EQ(take(7), Taken::untagged);
  EXPECT_TRUE(add(7).must_synchronize);
  EXPECT_TRUE(add(8, ~0ULL, 0).must_synchronize);
  EXPECT_EQ(take(7), Taken::untagged);
  EXPECT_EQ(take(1), Taken::tagged) << "it was there before";
  EXPECT_FALSE(synchronize(1)) << "there are two by now";
  EXPECT_EQ(take(7), Taken::untagged);
  EXPECT_TRUE(synchronize(3));
  EXPECT_EQ(take(7), Taken::tagged);
  EXPECT_EQ(take(9), Taken::untagged);
  EXPECT_FALSE(add(9, ~0ULL, 4).must_synchronize) << "an add that tells of all";
  EXPECT_EQ(take(9), Taken::tagged);
  EXPECT_EQ(take(8), Taken::tagged);
}

TEST_F(TagMatchingTest, AMessageThatFindsNoReceiveIsNotUnexpectedYet) {
  has_untagged_ = false;
  EXPECT_EQ(take(1), Taken::nothing);
  EXPECT_FALSE(add(1).must_synchronize);
  EXPECT_EQ(take(1, false), Taken::nothing) << "it may not match";
  EXPECT_EQ(take(1), Taken::tagged);
}

TEST_F(TagMatchingTest, TheCountOfUnexpectedMessagesWrapsAt16Bits) {
  for (std::uint32_t i = 0; i < 0x10005; ++i) take(1);
  EXPECT_TRUE(synchronize(5));
  take(1);
  EXPECT_TRUE(synchronize(0x10006));
}

TEST(TaggedMessage, IsReadFromItsFirstBytes) {
  using Operation = wire::TagHeader::Operation;
  std::array<std::byte, 40> bytes{};
  const auto read = [&](Operation operation, std::size_t length) {
    wire::encode({.operation = operation, .context = 0x01020304, .tag = 0x1122334455667788},
                 std::span(bytes).first<wire::TagHeader::kSize>());
    return TaggedMessage::read(std::span(bytes).first(length));
  };
  EXPECT_EQ(read(Operation::eager, 16).header.tag, 0x1122334455667788u);
  EXPECT_EQ(bytes[0], std::byte{3});
  EXPECT_EQ(bytes[4], std::byte{1});
  EXPECT_EQ(bytes[15], std::byte{0x88});
  using Message = TaggedMessage::Kind;
  EXPECT_EQ(read(Operation::eager, 16).kind, Message::eager);
  EXPECT_EQ(read(Operation::eager, 15).kind, Message::no_tag);
  EXPECT_EQ(read(Operation::rendezvous, 32).kind, Message::rendezvous);
  EXPECT_EQ(read(Operation::rendezvous, 31).kind, Message::no_tag);
  EXPECT_EQ(read(Operation::finished, 32).kind, Message::no_tag);
  EXPECT_EQ(read(Operation::no_tag, 0).kind, Message::no_tag);
}

}  // namespace
}  // namespace verbatim::adapter
