// The ring between programs and brokers, also if what it holds is wrong.
#include "ulp/rds/local/inbox.h"

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "ulp/rds/local/client.h"

namespace verbatim::ulp::rds::local {
namespace {

struct Mapped {
  UniqueFd file{create_inbox()};
  Inbox* inbox = map_inbox(file.get());
  Mapped() { inbox->limit.store(2 << 20); }
  ~Mapped() { unmap(inbox); }
};

Inbox::Put put(Inbox& inbox, std::span<const std::byte> bytes) {
  const Locked locked(inbox);
  const ByteSpan piece = bytes;
  return inbox.put({.kind = Kind::message, .bytes = static_cast<std::uint32_t>(bytes.size())},
                   {&piece, 1}, [] { return true; });
}

Inbox::Take take(Inbox& inbox, std::vector<std::byte>& bytes, bool stays = false) {
  bytes.resize(1 << 20);
  const iovec piece{bytes.data(), bytes.size()};
  Inbox::Taken taken;
  const Locked locked(inbox);
  const auto result = inbox.take(taken, &piece, 1, stays);
  bytes.resize(result == Inbox::Take::done ? taken.copied : 0);
  return result;
}

std::vector<std::byte> content(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(seed + i * 7 + i / 251);
  return all;
}

TEST(RdsInbox, MessagesComeInOrderAndWhole) {
  Mapped mapped;
  std::mt19937 random(1);
  unsigned written = 0, read = 0;
  std::vector<std::size_t> sizes;
  std::vector<std::byte> bytes;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t size = random() % 10 == 0 ? random() % (1 << 20) : random() % 3000;
    if (random() % 2 == 0 && put(*mapped.inbox, content(size, written)) == Inbox::Put::done) {
      sizes.push_back(size);
      ++written;
    } else if (read < written) {
      ASSERT_EQ(take(*mapped.inbox, bytes, true), Inbox::Take::done);
      ASSERT_EQ(take(*mapped.inbox, bytes), Inbox::Take::done);
      ASSERT_EQ(bytes, content(sizes[read], read));
      ++read;
    }
  }
  EXPECT_GT(read, 500u);
}

TEST(RdsInbox, OneMessageMayBeLongerThanTheLimit) {
  Mapped mapped;
  mapped.inbox->limit.store(4096);
  EXPECT_EQ(put(*mapped.inbox, content(1 << 20, 0)), Inbox::Put::done);
  EXPECT_EQ(put(*mapped.inbox, {}), Inbox::Put::no_room);
  std::vector<std::byte> bytes;
  EXPECT_EQ(take(*mapped.inbox, bytes), Inbox::Take::done);
  EXPECT_EQ(put(*mapped.inbox, {}), Inbox::Put::done);
}

/// Anything may stand in the cursors and in the ring.
TEST(RdsInbox, WrongOnesAreNoticedOrHarmless) {
  Mapped mapped;
  std::mt19937_64 random(7);
  std::vector<std::byte> bytes;
  int broken = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t taken = static_cast<std::uint32_t>(random());
    const std::uint32_t has =
        static_cast<std::uint32_t>(random() % 4 == 0 ? random() : random() % 20000);
    auto* const memory = reinterpret_cast<std::byte*>(mapped.inbox);
    Head head{.bytes = static_cast<std::uint32_t>(random() >> (random() % 32))};
    const std::size_t at = sizeof(Inbox) - Inbox::kCapacity + taken % Inbox::kCapacity;
    if (at + sizeof head <= sizeof(Inbox)) std::memcpy(memory + at, &head, sizeof head);
    mapped.inbox->cursors.store(std::uint64_t{taken + has} << 32 | taken);
    static_cast<void>(put(*mapped.inbox, content(random() % 5000, 1)));
    broken += take(*mapped.inbox, bytes) == Inbox::Take::broken ? 1 : 0;
    EXPECT_LE(bytes.size(), std::size_t{Inbox::kCapacity});
  }
  EXPECT_GT(broken, 100);
}

/// A signal's handler that receives in the midst of its own thread's receive would wait for ever.
TEST(RdsInbox, AThreadThatHasTheLockIsToldSoAndDoesNotWait) {
  Mapped mapped, other;
  ASSERT_EQ(put(*mapped.inbox, content(10, 0)), Inbox::Put::done);
  {
    const Locked outer(*mapped.inbox);
    ASSERT_TRUE(outer);
    EXPECT_FALSE(Locked(*mapped.inbox));
    EXPECT_TRUE(Locked(*other.inbox));
    Received received;
    EXPECT_EQ(receive(-1, *mapped.inbox, nullptr, 0, 0, received), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_TRUE(mapped.inbox->lock.is_locked());
  }
  EXPECT_TRUE(Locked(*mapped.inbox));
  Received received;
  EXPECT_EQ(receive(-1, *mapped.inbox, nullptr, 0, MSG_TRUNC | MSG_DONTWAIT, received), 10);
}

TEST(RdsInbox, AFileThatCanShrinkIsNone) {
  const UniqueFd file(memfd_create("none", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), sizeof(Inbox)), 0);
  EXPECT_EQ(map_inbox(file.get()), nullptr);
}

}  // namespace
}  // namespace verbatim::ulp::rds::local
