#include "service/channel.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace verbatim::service {
namespace {

constexpr Protocol kOurs{.magic = 0x31415926, .version = 3};

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(const Incoming& incoming) {
  return {reinterpret_cast<const char*>(incoming.bytes.data()), incoming.bytes.size()};
}

struct ChannelTest : testing::Test {
  std::pair<UniqueFd, UniqueFd> ends = make_socket_pair().value();
  int raw = ends.second.get();
  Channel here{std::move(ends.first), kOurs};
  Channel there{std::move(ends.second), kOurs};
};

TEST_F(ChannelTest, MessagesComeWholeAndInOrder) {
  ASSERT_TRUE(here.send(7, bytes_of("hello")));
  ASSERT_TRUE(here.send(8, {}));
  const auto first = there.receive();
  ASSERT_TRUE(first) << first.error().text;
  EXPECT_EQ(first->type, 7);
  EXPECT_EQ(text_of(*first), "hello");
  EXPECT_EQ(there.receive()->type, 8);
  EXPECT_EQ(there.receive(MSG_DONTWAIT).error().code, EAGAIN);
}

TEST_F(ChannelTest, DescriptorsComeBesideTheirMessage) {
  const std::array<int, 2> two{STDIN_FILENO, raw};
  ASSERT_TRUE(here.send(1, {}, two));
  const auto come = there.receive();
  ASSERT_EQ(come->descriptors.size(), 2U);
  struct stat sent{}, received{};
  fstat(raw, &sent);
  fstat(come->descriptors[1].get(), &received);
  EXPECT_EQ(sent.st_ino, received.st_ino);
  EXPECT_NE(come->descriptors[1].get(), raw);
}

TEST_F(ChannelTest, OtherVersionsAndNonsenseAreToldApart) {
  struct Row {
    std::vector<std::uint16_t> words;
    int error;
  };
  const Row rows[] = {{{0x5926, 0x3141, 4, 1}, EPROTONOSUPPORT},
                      {{0x5926, 0x3142, 3, 1}, EPROTO},
                      {{0x5926, 0x3141, 3}, EPROTO},
                      {{1}, EPROTO}};
  for (const Row& row : rows) {
    ASSERT_GT(send(raw, row.words.data(), row.words.size() * 2, 0), 0);
    EXPECT_EQ(here.receive().error().code, row.error);
  }
  const std::vector<std::byte> too_long(Channel::kBytesMax + 1);
  ASSERT_GT(send(raw, too_long.data(), too_long.size(), 0), 0);
  EXPECT_EQ(here.receive().error().code, EPROTO);
  EXPECT_EQ(here.send(1, too_long).error().code, EMSGSIZE);
}

TEST_F(ChannelTest, WhatTheSocketHasNoRoomForWaitsAndIsBounded) {
  const std::vector<std::byte> message(32 << 10);
  std::size_t sent = 0;
  while (here.send(1, message)) ++sent;
  EXPECT_TRUE(here.wants_to_send());
  EXPECT_EQ(here.send(1, message).error().code, ENOBUFS);
  const std::size_t cost = message.size() + 8;
  EXPECT_GE(sent * cost, Channel::kQueueBytesMax);
  EXPECT_LE(sent * cost, Channel::kQueueBytesMax + (1 << 20)) << "and what the socket holds";
  std::size_t received = 0;
  while (there.receive(MSG_DONTWAIT)) {
    ++received;
    ASSERT_TRUE(here.flush());
  }
  EXPECT_EQ(received, sent);
  EXPECT_FALSE(here.wants_to_send());
}

TEST_F(ChannelTest, DescriptorsThatWaitAreKeptOpen) {
  const std::vector<std::byte> message(32 << 10);
  while (!here.wants_to_send()) ASSERT_TRUE(here.send(1, message));
  {
    const auto gone = make_socket_pair().value();
    const int fd = gone.first.get();
    ASSERT_TRUE(here.send(2, {}, std::span(&fd, 1)));
  }
  for (auto come = there.receive(); come; come = there.receive(MSG_DONTWAIT)) {
    ASSERT_TRUE(here.flush());
    if (come->type != 2) continue;
    ASSERT_EQ(come->descriptors.size(), 1U);
    return;
  }
  FAIL() << "the last one has not come";
}

TEST_F(ChannelTest, ClosedAndFullAreErrors) {
  // Without room for a descriptor the kernel cuts what comes beside the message.
  const int fd = STDIN_FILENO;
  ASSERT_TRUE(here.send(1, {}, std::span(&fd, 1)));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 3, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  const auto cut = there.receive();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(cut.error().code, EMFILE);
  here = Channel(UniqueFd(), kOurs);
  EXPECT_EQ(there.receive().error().code, ECONNRESET);
  EXPECT_EQ(there.send(1, {}).error().code, EPIPE);
}

}  // namespace
}  // namespace verbatim::service
