#include "cm/ib/guard/fair_queue.h"

#include <gtest/gtest.h>

namespace verbatim::cm {
namespace {

Source source(std::uint8_t last) { return source_of(SocketAddress::ipv4({10, 0, 0, last})); }
Source ipv6(std::string_view text) { return source_of(*SocketAddress::parse(text)); }

/// Adds entries numbered from `first`; their ids are their numbers.
void add(FairQueue& queue, const Source& from, std::uint64_t first, std::uint32_t count) {
  for (std::uint64_t i = first; i < first + count; ++i) {
    queue.add(from, i, static_cast<ConnectionId>(i));
  }
}

TEST(FairQueue, TheGreediestSourceLosesItsOldest) {
  FairQueue queue(256);
  add(queue, source(1), 1, 20);
  add(queue, source(2), 100, 30);
  add(queue, source(1), 200, 5);
  EXPECT_EQ(queue.displaced_by(source(3)), ConnectionId{100});
  EXPECT_EQ(queue.displaced_by(source(1)), ConnectionId{100});
  EXPECT_EQ(queue.displaced_by(source(2)), std::nullopt);
}

TEST(FairQueue, SourcesWithEqualSharesKeepThem) {
  FairQueue queue(256);
  add(queue, source(1), 1, 20);
  add(queue, source(2), 100, 20);
  EXPECT_EQ(queue.displaced_by(source(1)), std::nullopt);
  EXPECT_EQ(queue.displaced_by(source(2)), std::nullopt);
}

TEST(FairQueue, OfSourcesWithFewEntriesTheOldestEntryGoes) {
  FairQueue queue(256);
  add(queue, source(1), 10, 1);
  add(queue, source(2), 20, 3);  // Four would be more than "few".
  EXPECT_EQ(queue.displaced_by(source(2)), ConnectionId{10});
  EXPECT_EQ(queue.displaced_by(source(1)), std::nullopt);
  queue.remove(source(1), 10);
  EXPECT_EQ(queue.displaced_by(source(1)), ConnectionId{20});
}

TEST(FairQueue, AnIpv6NetworkIsOneSource) {
  FairQueue queue(256);
  add(queue, ipv6("2001:db8::1"), 1, 10);
  add(queue, ipv6("2001:db8::ffff:2"), 100, 10);
  EXPECT_EQ(queue.size_of(ipv6("2001:db8::3")), 20u);
  EXPECT_EQ(queue.size_of(ipv6("2001:db8:0:1::3")), 0u);
  add(queue, ipv6("fe80::1"), 200, 1);  // Link-local: many hosts share the network.
  EXPECT_EQ(queue.size_of(ipv6("fe80::2")), 0u);
}

TEST(FairQueue, WithFewPlacesEveryEntryCounts) {
  FairQueue queue(16);
  add(queue, source(1), 1, 1);
  add(queue, source(2), 10, 14);
  EXPECT_FALSE(queue.is_full());
  add(queue, source(2), 30, 1);
  EXPECT_TRUE(queue.is_full());
  EXPECT_EQ(queue.displaced_by(source(2)),
            std::nullopt);  // The other source does not lose its entry, though it is older.
  EXPECT_EQ(queue.displaced_by(source(1)), ConnectionId{10});
}

TEST(FairQueue, WhatIsNotThereIsNotRemoved) {
  FairQueue queue(256);
  EXPECT_EQ(queue.displaced_by(source(1)), std::nullopt);
  add(queue, source(1), 1, 1);
  queue.remove(source(1), 2);
  queue.remove(source(2), 1);
  EXPECT_EQ(queue.size_of(source(1)), 1u);
  queue.remove(source(1), 1);
  EXPECT_EQ(queue.size_of(source(1)), 0u);
}

}  // namespace
}  // namespace verbatim::cm
