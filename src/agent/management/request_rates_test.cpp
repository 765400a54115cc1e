#include "agent/management/request_rates.h"

#include <gtest/gtest.h>

namespace verbatim::agent {
namespace {

Path source(std::size_t number) {
  return roce_path(SocketAddress::ipv4(
      {10, 0, static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)},
      kRocePort));
}

TEST(RequestRates, ASourceHasSentFewUntilItHasSentMany) {
  RequestRates rates;
  for (std::size_t i = 0; i < RequestRates::kFew; ++i) EXPECT_TRUE(rates.count(source(1), kSecond));
  EXPECT_FALSE(rates.count(source(1), kSecond));
  EXPECT_TRUE(rates.count(source(2), kSecond));
  EXPECT_TRUE(rates.count(source(1), kSecond + RequestRates::kWindow));
}

TEST(RequestRates, LidsAreSources) {
  RequestRates rates;
  const auto count = [&](std::uint16_t lid) {
    return rates.count(InfinibandPath{.dlid = Lid{lid}, .slid = Lid{9}, .grh = std::nullopt},
                       kSecond);
  };
  for (std::size_t i = 0; i < RequestRates::kFew; ++i) EXPECT_TRUE(count(0x102));
  EXPECT_FALSE(count(0x102));
  EXPECT_TRUE(count(0x202));
}

TEST(RequestRates, SourcesBeyondTheMostHaveSentFew) {
  RequestRates rates;
  for (std::size_t i = 0; i < RequestRates::kSourcesMax; ++i) rates.count(source(i), kSecond);
  for (std::size_t i = 0; i <= RequestRates::kFew; ++i) {
    EXPECT_TRUE(rates.count(source(RequestRates::kSourcesMax), kSecond));
  }
}

}  // namespace
}  // namespace verbatim::agent
