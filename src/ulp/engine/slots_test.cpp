#include "ulp/engine/slots.h"

#include <vector>

#include <gtest/gtest.h>

#include "ulp/engine/meeting.h"

namespace verbatim::ulp {
namespace {

TEST(Slots, TakesAsManyAsItHas) {
  Slots<int> slots(2);
  EXPECT_NE(slots.take(), nullptr);
  int* const second = slots.take();
  EXPECT_TRUE(slots.full());
  EXPECT_EQ(slots.take(), nullptr);
  slots.give_back(*second);
  EXPECT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots.take(), second);
}

TEST(Slots, TagOfWhatIsOverFindsNothing) {
  Slots<int> slots(1);
  int* const first = slots.take();
  const Tag tag = slots.tag_of(*first);
  EXPECT_NE(tag, kNoTag);
  EXPECT_EQ(slots.find(tag), first);
  slots.give_back(*first);
  EXPECT_EQ(slots.find(tag), nullptr);
  const Tag next = slots.tag_of(*slots.take());
  EXPECT_NE(next, tag);
  EXPECT_EQ(slots.find(tag), nullptr);
  EXPECT_NE(slots.find(next), nullptr);
}

TEST(Slots, NonsenseFindsNothing) {
  Slots<int> slots(3);
  slots.take();
  for (const std::uint32_t tag : {0U, 2U, 4U, 0xffffU, 0x10001U, 0xffffffffU}) {
    EXPECT_EQ(slots.find(Tag{tag}), nullptr) << tag;
  }
}

TEST(Slots, ValuesAreFreshAndMayBeGivenBackWhileVisited) {
  Slots<int> slots(3);
  for (int i = 1; i <= 3; ++i) *slots.take() = i;
  std::vector<int> seen;
  slots.for_each([&](int& value) {
    seen.push_back(value);
    slots.give_back(value);
  });
  EXPECT_EQ(seen, (std::vector{1, 2, 3}));
  EXPECT_EQ(slots.size(), 0U);
  EXPECT_EQ(*slots.take(), 0);
}

TEST(Slots, MakesValuesWhenTheyAreTakenForTheFirstTime) {
  static int made = 0, alive = 0;
  struct Counted {
    Counted() { ++made, ++alive; }
    Counted(const Counted&) { ++alive; }
    Counted& operator=(const Counted&) = default;
    ~Counted() { --alive; }
  };
  {
    Slots<Counted> slots(1000);
    EXPECT_EQ(made, 0);
    Counted* const first = slots.take();
    slots.take();
    EXPECT_EQ(made, 2);
    slots.give_back(*first);
    EXPECT_EQ(slots.take(), first);
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

TEST(PrivateData, OfAMessageThatIsTooLongIsCut) {
  const std::vector<std::byte> bytes(300, std::byte{7});
  EXPECT_EQ(to_private_data(bytes).size(), PrivateData::capacity());
  EXPECT_EQ(to_private_data(ByteSpan(bytes).first(3)).size(), 3U);
  EXPECT_TRUE(to_private_data({}).empty());
}

}  // namespace
}  // namespace verbatim::ulp
