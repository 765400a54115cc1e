#include "mover/tcp_stream.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "mover/tcp_ends_for_test.h"

namespace verbatim::mover {
namespace {

void wait_for(const TcpStream& stream, short events) {
  pollfd ready{.fd = stream.fd(), .events = events, .revents = 0};
  poll(&ready, 1, 5000);
}

class TcpStreams : public testing::Test {
 private:
  TcpEnds ends_;

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
  constexpr std::size_t kTotal = 8 << 20;
  constexpr std::size_t kFront = 20, kPiece = 30'000, kAll = kFront + 2 * kPiece + 4;
  const auto byte_at = [](std::size_t at) { return static_cast<std::byte>(at * 7 / 3); };
  std::vector<std::byte> memory(2 * kPiece);
  std::size_t made = 0, seen = 0;
  while (seen < kTotal) {
    for (int messages = 0; messages < 5; ++messages) {
      const auto room = a_.reserve(kAll);
      if (room.empty()) break;
      a_.keep_borrowed();  // For `memory` is to hold another message.
      const auto own = a_.reserve(kAll);
      std::size_t at = made;
      for (std::byte& byte : own.first(kFront)) byte = byte_at(at++);
      for (std::byte& byte : memory) byte = byte_at(at++);
      for (std::byte& byte : own.subspan(kFront, 4)) byte = byte_at(at++);
      a_.commit(kFront);
      a_.borrow(std::span(memory).first(kPiece));
      a_.borrow(std::span(memory).subspan(kPiece));
      a_.commit(4);
      made = at;
    }
    const int error = a_.send();
    ASSERT_TRUE(error == 0 || error == EAGAIN) << error;
    std::ranges::fill(memory, std::byte{0xee});
    wait_for(b_, POLLIN);
    ASSERT_EQ(b_.receive(), 0);
    for (const std::byte byte : b_.arrived()) ASSERT_EQ(byte, byte_at(seen++)) << seen;
    b_.consume(b_.arrived().size());
  }
}

TEST_F(TcpStreams, ThereIsNoRoomForMorePiecesThanOneCallSends) {
  std::vector<std::byte> memory(2 * TcpStream::kBorrowsMax);
  int reserved = 0;
  for (; !a_.reserve(100).empty(); ++reserved) {
    a_.commit(1);
    for (std::size_t i = 0; i < TcpStream::kBorrowsMax; ++i) {
      a_.borrow(std::span(memory).subspan(2 * i, 1));
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
}  // namespace verbatim::mover
