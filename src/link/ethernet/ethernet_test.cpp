#include "link/ethernet/ethernet.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>

namespace verbatim::link {
namespace {

EthernetIdentity node(std::uint8_t last) {
  return {.interface = "lo",
          .interface_index = if_nametoindex("lo"),
          .address = SocketAddress::ipv4({127, 77, 200, last})};
}

std::unique_ptr<EthernetPort> port(std::uint8_t last) {
  auto opened = EthernetPort::open(node(last));
  EXPECT_TRUE(opened) << opened.error().text;
  return std::move(*opened);
}

struct Received {
  std::vector<std::byte> bytes;
  bool sent = false;
};

/// Receives `count` frames that begin with `mark`: other processes use the segment, too.
std::vector<Received> receive(EthernetPort& port, int fd, std::byte mark, std::size_t count) {
  std::vector<Received> got;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (got.size() < count && std::chrono::steady_clock::now() < end) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    poll(&ready, 1, 100);
    port.receive([&](const ReceivedFrame& frame) {
      if (frame.bytes.front() != mark) return;
      got.push_back({{frame.bytes.begin(), frame.bytes.end()}, frame.sent});
    });
  }
  return got;
}

void add(FrameBatch& batch, std::byte mark, std::size_t bytes) {
  const MutableByteSpan frame = batch.add(bytes);
  std::ranges::fill(frame, static_cast<std::byte>(bytes));
  frame.front() = mark;
}

TEST(EthernetSegment, FramesOfAnySizesReachEveryNodeInOrder) {
  const auto a = port(1);
  const auto b = port(2);
  const auto b_fd = b->start_receiving();
  ASSERT_TRUE(b_fd) << b_fd.error().text;
  const auto a_fd = a->start_receiving();
  ASSERT_TRUE(a_fd);

  constexpr std::byte kMark{0xa1};
  const std::vector<std::size_t> sizes{60, 60, 60, 1514, 1514, 14, kFrameBytesMax, 61};
  FrameBatch batch;
  for (const std::size_t size : sizes) add(batch, kMark, size);
  ASSERT_EQ(a->send(batch), 0);
  for (EthernetPort* receiver : {a.get(), b.get()}) {
    const auto got = receive(*receiver, receiver == a.get() ? *a_fd : *b_fd, kMark, sizes.size());
    ASSERT_EQ(got.size(), sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(got[i].bytes.size(), sizes[i]);
      EXPECT_EQ(got[i].bytes.back(), static_cast<std::byte>(sizes[i]));
      EXPECT_EQ(got[i].sent, receiver == a.get());
    }
  }
}

TEST(EthernetSegment, WhoDoesNotReceiveGetsNothing) {
  const auto a = port(3);
  const auto b = port(4);
  const auto fd = b->start_receiving();
  ASSERT_TRUE(fd);
  b->stop_receiving();
  FrameBatch batch;
  add(batch, std::byte{0xa2}, 60);
  ASSERT_EQ(a->send(batch), 0);
  EXPECT_EQ(b->receive([](const ReceivedFrame&) { FAIL(); }), 0u);
}

TEST(EthernetSegment, NeedsIpv4) {
  EthernetIdentity identity = node(1);
  identity.address = *SocketAddress::parse("::1");
  const auto refused = EthernetPort::open(identity);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EAFNOSUPPORT);
}

TEST(FrameBatch, IsFullByCountAndByBytes) {
  FrameBatch batch;
  for (std::size_t i = 0; i < FrameBatch::kFramesMax; ++i) {
    ASSERT_TRUE(batch.has_room_for(60));
    batch.add(60);
  }
  EXPECT_FALSE(batch.has_room_for(60));
  batch.clear();
  for (int i = 0; i < 6; ++i) batch.add(kFrameBytesMax);
  EXPECT_FALSE(batch.has_room_for(kFrameBytesMax));
  EXPECT_TRUE(batch.has_room_for(60));
  batch.drop_last();
  EXPECT_TRUE(batch.has_room_for(kFrameBytesMax));
}

}  // namespace
}  // namespace verbatim::link
