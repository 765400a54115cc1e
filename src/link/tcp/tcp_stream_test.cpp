#include "link/tcp/tcp_stream.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "link/tcp/tcp_test_util.h"

namespace verbatim::link {
namespace {

void wait_for(const TcpStream& stream, short events) {
  pollfd ready{.fd = stream.fd(), .events = events, .revents = 0};
  poll(&ready, 1, 5000);
}

class TcpStreams : public testing::Test {
 private:
  TcpPair ends_;

 protected:
  TcpStream a_ = TcpStream::adopt(std::move(ends_.active)).value();
  TcpStream b_ = TcpStream::adopt(std::move(ends_.passive)).value();
};

TEST_F(TcpStreams, WhatWaitsArrivesHoweverLittleTheSocketTakes) {
  constexpr std::size_t kTotal = 16 << 20;
  constexpr std::size_t kPiece = 60'000;
  std::size_t made = 0, seen = 0;
  while (seen < kTotal) {
    while (made < kTotal) {
      const auto room = a_.reserve(std::min(kPiece, kTotal - made));
      if (room.empty()) break;
      for (std::byte& byte : room) byte = static_cast<std::byte>(made++ * 7 / 3);
      a_.commit(room.size());
    }
    const int error = a_.send();
    ASSERT_TRUE(error == 0 || error == EAGAIN) << error;
    wait_for(b_, POLLIN);
    ASSERT_EQ(b_.receive(), 0);
    for (const std::byte byte : b_.arrived()) {
      ASSERT_EQ(byte, static_cast<std::byte>(seen * 7 / 3)) << seen;
      ++seen;
    }
    b_.consume(b_.arrived().size());
  }
  EXPECT_TRUE(a_.has_sent_all());
  EXPECT_EQ(b_.receive(), EAGAIN);
}

TEST_F(TcpStreams, WhatIsBorrowedIsCopiedWhereTheSocketDoesNotTakeIt) {
  constexpr std::size_t kFront = 20, kPiece = 30'000, kEnd = 4, kAll = kFront + 2 * kPiece + kEnd;
  const auto byte_at = [](std::size_t at) { return static_cast<std::byte>(at * 7 / 3); };
  std::size_t made = 0, seen = 0;
  const auto append = [&](MutableByteSpan memory, MutableByteSpan own) {
    for (std::byte& byte : own.first(kFront)) byte = byte_at(made++);
    for (std::byte& byte : memory) byte = byte_at(made++);
    for (std::byte& byte : own.subspan(kFront, kEnd)) byte = byte_at(made++);
    a_.commit(kFront);
    a_.append_by_reference(memory.first(kPiece));
    a_.append_by_reference(memory.subspan(kPiece));
    a_.commit(kEnd);
  };
  std::vector<std::byte> memory(8 * kPiece);
  for (int refusals = 0; refusals < 5;) {
    for (std::size_t at = 0; at < memory.size(); at += 2 * kPiece) {
      const auto own = a_.reserve(kAll);
      if (!own.empty()) append(std::span(memory).subspan(at, 2 * kPiece), own);
    }
    const int error = a_.send();
    std::ranges::fill(memory, std::byte{0xee});
    if (error == 0) continue;
    ASSERT_EQ(error, EAGAIN);
    ++refusals;
    while (seen < made) {
      wait_for(b_, POLLIN);
      ASSERT_EQ(b_.receive(), 0);
      for (const std::byte byte : b_.arrived()) ASSERT_EQ(byte, byte_at(seen++)) << seen;
      b_.consume(b_.arrived().size());
      const int later = a_.send();
      ASSERT_TRUE(later == 0 || later == EAGAIN) << later;
    }
  }
}

TEST_F(TcpStreams, APieceThatTheCallerTakesBackWaitsAsACopy) {
  std::vector<std::byte> memory(5000, std::byte{7});
  ASSERT_FALSE(a_.reserve(memory.size()).empty());
  a_.append_by_reference(memory);
  a_.copy_referenced();
  std::ranges::fill(memory, std::byte{0xee});
  ASSERT_EQ(a_.send(), 0);
  wait_for(b_, POLLIN);
  ASSERT_EQ(b_.receive(), 0);
  ASSERT_EQ(b_.arrived().size(), memory.size());
  for (const std::byte byte : b_.arrived()) ASSERT_EQ(byte, std::byte{7});
}

TEST_F(TcpStreams, ThereIsNoRoomForMorePiecesThanOneCallSends) {
  std::vector<std::byte> memory(2 * TcpStream::kReferencesMax);
  int reserved = 0;
  for (; !a_.reserve(100).empty(); ++reserved) {
    a_.commit(1);
    for (std::size_t i = 0; i < TcpStream::kReferencesMax; ++i) {
      a_.append_by_reference(std::span(memory).subspan(2 * i, 1));
    }
    a_.commit(1);
  }
  EXPECT_EQ(reserved, 4);
  EXPECT_EQ(a_.send(), 0);
  EXPECT_TRUE(a_.has_sent_all());
  EXPECT_FALSE(a_.reserve(100).empty());
}

TEST_F(TcpStreams, WhatIsNotConsumedStays) {
  std::ranges::fill(a_.reserve(10), std::byte{1});
  a_.commit(10);
  ASSERT_EQ(a_.send(), 0);
  wait_for(b_, POLLIN);
  ASSERT_EQ(b_.receive(), 0);
  b_.consume(4);
  EXPECT_EQ(b_.receive(), EAGAIN);
  EXPECT_EQ(b_.arrived().size(), 6u);
}

TEST_F(TcpStreams, ThereIsNoRoomForMoreThanTheBuffer) {
  const auto room = a_.reserve(TcpStream::kBufferBytes);
  ASSERT_EQ(room.size(), TcpStream::kBufferBytes);
  a_.commit(room.size());
  EXPECT_TRUE(a_.reserve(1).empty());
}

TEST_F(TcpStreams, TheEndIsTold) {
  a_.shut_down();
  wait_for(b_, POLLIN);
  EXPECT_EQ(b_.receive(), ENODATA);
}

TEST_F(TcpStreams, AResetIsAnError) {
  a_.reset();
  wait_for(b_, POLLIN);
  EXPECT_EQ(b_.receive(), ECONNRESET);
}

TEST_F(TcpStreams, SegmentsOfTheLoopbackInterfaceAreLarge) { EXPECT_GT(a_.segment_bytes(), 1000u); }

TEST(TcpStream, ASocketWithoutAPeerIsRefused) {
  EXPECT_FALSE(TcpStream::adopt(UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))));
}

}  // namespace
}  // namespace verbatim::link
