#include "fabric/data/image/tap.h"

#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

void add(Tap& tap, std::uint64_t number, LinkIndex link = 1) {
  tap.add({.link = link}, std::as_bytes(std::span(&number, 1)));
}
std::uint64_t number_of(const TapReader::Read& read) {
  std::uint64_t number = 0;
  EXPECT_EQ(read.content.size(), sizeof number);
  std::memcpy(&number, read.content.data(), sizeof number);
  return number;
}

class TapTest : public testing::Test {
 protected:
  const std::unique_ptr<Tap> tap = std::make_unique<Tap>();
};

TEST_F(TapTest, PacketsComeInOrderFromTheBeginningOfReading) {
  add(*tap, 1);
  TapReader reader(*tap);
  EXPECT_FALSE(reader.next(0));
  add(*tap, 2, 7);
  add(*tap, 3);
  const auto read = reader.next(0);
  ASSERT_TRUE(read);
  EXPECT_EQ(number_of(*read), 2u);
  EXPECT_EQ(read->packet.link, 7u);
  EXPECT_EQ(number_of(reader.next(0).value()), 3u);
  EXPECT_FALSE(reader.next(0));
  EXPECT_EQ(reader.lost(), 0u);
}

TEST_F(TapTest, ASlowReaderLosesTheOldest) {
  TapReader reader(*tap);
  for (std::uint64_t i = 0; i < kTapCells + 10; ++i) add(*tap, i);
  EXPECT_EQ(number_of(reader.next(0).value()), 10u);
  EXPECT_EQ(reader.lost(), 10u);
}

TEST_F(TapTest, APacketWhoseWriterHasDiedIsLost) {
  TapReader reader(*tap);
  tap->cells[0].turn = 1;  // As of a writer that is in the middle of it.
  tap->next = 1;
  add(*tap, 1);
  EXPECT_FALSE(reader.next(kSecond));
  EXPECT_EQ(number_of(reader.next(2 * kSecond).value()), 1u);
  EXPECT_EQ(reader.lost(), 1u);
  for (std::uint64_t i = 2; i <= kTapCells; ++i) add(*tap, i);  // The next round takes the cell.
  for (std::uint64_t i = 2; i <= kTapCells; ++i) {
    ASSERT_EQ(number_of(reader.next(2 * kSecond).value()), i);
  }
}

TEST_F(TapTest, ManyWritersLoseNothingThatIsRead) {
  constexpr std::uint64_t kEach = 500;  // All fit.
  TapReader reader(*tap);
  {
    std::vector<std::jthread> writers;
    for (LinkIndex link = 0; link < 4; ++link) {
      writers.emplace_back([&, link] {
        for (std::uint64_t i = 0; i < kEach; ++i) add(*tap, i, link);
      });
    }
  }
  std::array<std::uint64_t, 4> next{};
  while (const auto read = reader.next(0)) {
    ASSERT_EQ(number_of(*read), next[read->packet.link]++);
  }
  for (const std::uint64_t count : next) EXPECT_EQ(count, kEach);
}

}  // namespace
}  // namespace verbatim::fabric
