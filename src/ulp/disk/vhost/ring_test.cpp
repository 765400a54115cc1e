#include "ulp/disk/vhost/ring.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ulp/disk/vhost/block.h"
#include "ulp/disk/vhost/guest_for_test.h"

namespace verbatim::ulp::disk::vhost {
namespace {

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

/// On the heap and with its exact size: the address sanitizer sees an access beside it.
struct VhostRing : testing::Test {
  VhostRing() {
    memory.add(Guest::kGuest, Guest::kUser, bytes);
    EXPECT_TRUE(ring.set_entries(Guest::kEntries));
    ring.set_addresses(Guest::addresses());
    EXPECT_TRUE(ring.begin(memory));
  }
  int error_of_take() {
    const auto chain = ring.take();
    return chain ? 0 : chain.error().code;
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(0x8000);
  Guest guest{bytes};
  GuestMemory memory;
  Ring ring;
};

TEST_F(VhostRing, ChainsComeInTheirOrderAndGoBack) {
  guest.set_chain(
      0, {{Guest::data(0), 16}, {Guest::data(16), 512, kWrite}, {Guest::data(528), 1, kWrite}});
  guest.set_chain(5, {{Guest::data(600), 16}, {Guest::data(616), 1, kWrite}});
  guest.offer(5), guest.offer(0);
  const auto first = ring.take();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((**first).head, 5);
  const auto second = ring.take();
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((**second).readable_bytes, 16U);
  EXPECT_EQ((**second).writable_bytes, 513U);
  EXPECT_EQ((**second).writable.size(), 2U);
  EXPECT_FALSE(*ring.take());
  ring.put(5, 1), ring.put(0, 513);
  EXPECT_EQ(guest.used(), 2);
  EXPECT_EQ(guest.used_at(0), (Guest::Used{5, 1}));
  EXPECT_EQ(guest.used_at(1), (Guest::Used{0, 513}));
  EXPECT_TRUE(ring.wants_call());
}

TEST_F(VhostRing, IndicesWrap) {
  guest.set_chain(2, {{Guest::data(0), 16}, {Guest::data(16), 1, kWrite}});
  constexpr std::uint32_t kTurns = 0x10000 + 100;
  for (std::uint32_t i = 0; i < kTurns; ++i) {
    guest.offer(2);
    const auto chain = ring.take();
    ASSERT_TRUE(chain && *chain) << i;
    ring.put((**chain).head, i);
    ASSERT_EQ(guest.used(), static_cast<std::uint16_t>(i + 1));
    ASSERT_EQ(guest.used_at(static_cast<std::uint16_t>(i)), (Guest::Used{2, i}));
  }
  EXPECT_EQ(ring.base(), static_cast<std::uint16_t>(kTurns));
}

TEST_F(VhostRing, HostileRingsAreRefused) {
  const std::uint64_t at = Guest::data(0);
  struct Row {
    const char* name;
    std::vector<Descriptor> descriptors;
    std::uint16_t head, available;
  };
  const Row rows[] = {
      {"head outside", {}, Guest::kEntries, 1},
      {"head far outside", {}, 0xffff, 1},
      {"more than the ring has", {{at, 16}}, 0, Guest::kEntries + 1},
      {"an index that went back", {{at, 16}}, 0, 0xffff},
      {"next outside", {{at, 16, kNext, 8}}, 0, 1},
      {"next far outside", {{at, 16, kNext, 0xffff}}, 0, 1},
      {"a loop", {{at, 16, kNext, 1}, {at, 16, kNext, 0}}, 0, 1},
      {"itself", {{at, 16, kNext, 0}}, 0, 1},
      {"indirect", {{at, 16, kIndirect}}, 0, 1},
      {"readable last", {{at, 16, kNext | kWrite, 1}, {at, 16}}, 0, 1},
  };
  for (const Row& row : rows) {
    std::ranges::fill(bytes, std::byte{0});
    ring.set_base(0);
    Guest fresh{bytes};
    for (std::uint16_t i = 0; i < row.descriptors.size(); ++i) fresh.set(i, row.descriptors[i]);
    fresh.offer(row.head);
    fresh.set_available(row.available);
    EXPECT_EQ(error_of_take(), EPROTO) << row.name;
    EXPECT_EQ(ring.base(), 0) << row.name;
  }
}

TEST_F(VhostRing, ARingThatIsNotInTheMemoryIsNotUsed) {
  const VringAddress good = Guest::addresses();
  const std::uint64_t end = Guest::kUser + bytes.size();
  struct Row {
    std::uint64_t descriptors, used, available;
  };
  const Row rows[] = {
      {end, good.used, good.available},
      {end - 16 * Guest::kEntries + 16, good.used, good.available},
      {good.descriptors, end - 8, good.available},
      {good.descriptors, good.used, end - 4},
      {kAll, good.used, good.available},
      {kAll - 15, kAll, kAll},
      {good.descriptors, Guest::kUser - 1, good.available},
      {good.descriptors + 1, good.used, good.available},
      {good.descriptors, good.used + 2, good.available},
      {good.descriptors, good.used, good.available + 1},
  };
  for (const Row& row : rows) {
    ring.set_addresses(
        {.descriptors = row.descriptors, .used = row.used, .available = row.available});
    EXPECT_FALSE(ring.begin(memory)) << row.descriptors << " " << row.used << " " << row.available;
    EXPECT_FALSE(ring.has_begun());
  }
  for (const std::uint32_t entries : {0U, 3U, 2048U, ~0U}) EXPECT_FALSE(ring.set_entries(entries));
}

/// What a request says of its data is looked up when it is copied.
TEST_F(VhostRing, HostileRequestsAreAnsweredOrBreakTheRing) {
  enum class End { broken, error, unsupported, asked };
  const std::uint64_t head = Guest::data(0), data = Guest::data(64), status = Guest::data(32),
                      end = Guest::kGuest + bytes.size();
  struct Row {
    const char* name;
    std::uint32_t type;
    std::uint64_t sector;
    std::vector<Descriptor> chain;
    End end;
  };
  const Row rows[] = {
      {"a read", 0, 0, {{head, 16}, {data, 512, kWrite}, {status, 1, kWrite}}, End::asked},
      {"no status", 0, 0, {{head, 16}}, End::broken},
      {"a short head", 0, 0, {{head, 15}, {status, 1, kWrite}}, End::broken},
      {"a head outside", 0, 0, {{end - 8, 16}, {status, 1, kWrite}}, End::broken},
      {"a head that wraps", 0, 0, {{kAll - 7, 16}, {status, 1, kWrite}}, End::broken},
      {"data outside", 1, 0, {{head, 16}, {end - 511, 512}, {status, 1, kWrite}}, End::error},
      {"data that wraps", 1, 0, {{head, 16}, {kAll - 1, 512}, {status, 1, kWrite}}, End::error},
      {"too much", 1, 0, {{head, 16}, {data, ~0U}, {data, ~0U}, {status, 1, kWrite}}, End::error},
      {"too much to read",
       0,
       0,
       {{head, 16}, {data, ~0U, kWrite}, {status, 1, kWrite}},
       End::error},
      {"far away", 0, kAll, {{head, 16}, {data, 512, kWrite}, {status, 1, kWrite}}, End::error},
      {"SCSI", 2, 0, {{head, 16}, {data, 512, kWrite}, {status, 1, kWrite}}, End::unsupported},
      {"secure erase", 14, 0, {{head, 16}, {data, 16}, {status, 1, kWrite}}, End::unsupported},
      {"two ranges", 11, 0, {{head, 16}, {data, 32}, {status, 1, kWrite}}, End::error},
      {"no range", 11, 0, {{head, 16}, {status, 1, kWrite}}, End::error},
  };
  const storage::DiskFacts facts{
      .bytes = 1 << 20, .clear_bytes_max = 65536, .can_discard = true, .name = ""};
  for (const Row& row : rows) {
    std::ranges::fill(bytes, std::byte{0});
    ring.set_base(0);
    Guest fresh{bytes};
    std::memcpy(fresh.data_at(0), &row.type, sizeof row.type);
    std::memcpy(fresh.data_at(8), &row.sector, sizeof row.sector);
    for (std::uint16_t i = 0; i < row.chain.size(); ++i) {
      Descriptor one = row.chain[i];
      if (i + 1U < row.chain.size())
        one.flags |= kNext, one.next = static_cast<std::uint16_t>(i + 1);
      fresh.set(i, one);
    }
    fresh.offer(0);
    auto chain = ring.take();
    ASSERT_TRUE(chain && *chain) << row.name;
    Job job;
    job.chain = std::move(**chain);
    const auto read = read_request(job, memory, facts, kFlush);
    EXPECT_EQ(read.has_value(), row.end != End::broken) << row.name;
    if (!read) continue;
    EXPECT_EQ(job.status.has_value(), row.end != End::asked) << row.name;
    write_answer(job, memory);
    const auto expected = row.end == End::asked ? 0 : row.end == End::error ? 1 : 2;
    EXPECT_EQ(std::to_integer<int>(*fresh.data_at(32)), expected) << row.name;
  }
}

TEST(VhostGuestMemory, PiecesAreFoundOverRegionsThatAdjoin) {
  std::array<std::byte, 16> low{}, high{};
  low[15] = std::byte{1}, high[0] = std::byte{2};
  GuestMemory memory;
  memory.add(0x1000, 0x9000, low);
  memory.add(0x1010, 0x5000, high);
  std::array<std::byte, 2> two{};
  EXPECT_TRUE(memory.read(0x100f, two));
  EXPECT_EQ(two, (std::array{std::byte{1}, std::byte{2}}));
  std::array<std::byte, 2> none{};
  EXPECT_FALSE(memory.read(0x101f, none));
  EXPECT_FALSE(memory.write(0xfff, two));
  EXPECT_EQ(memory.find_user(0x900f, 2), nullptr) << "a ring's part lies in one";
  EXPECT_EQ(memory.find_user(0x900f, 1), &low[15]);
  const Piece pieces[] = {{0x1000, 8}, {0x1018, 0}, {0x1018, 8}};
  EXPECT_TRUE(memory.write(pieces, 7, two));
  EXPECT_EQ(low[7], std::byte{1});
  EXPECT_EQ(high[8], std::byte{2});
  EXPECT_FALSE(memory.write(pieces, 15, two));
}

TEST(VhostGuestMemory, TablesThatCannotBeAreRefused) {
  const UniqueFd file(memfd_create("guest", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 0x4000), 0);
  const MemoryRegion rows[] = {
      {.guest = 0, .bytes = 0, .user = 0, .offset = 0},
      {.guest = 0, .bytes = 0x4001, .user = 0, .offset = 0},
      {.guest = 0, .bytes = 0x1000, .user = 0, .offset = 0x3001},
      {.guest = kAll, .bytes = 0x1000, .user = 0, .offset = 0},
      {.guest = 0, .bytes = 0x1000, .user = kAll - 1, .offset = 0},
      {.guest = 0, .bytes = 0x1000, .user = 0, .offset = kAll - 1},
      {.guest = 0, .bytes = kAll, .user = 0, .offset = 0},
  };
  for (const MemoryRegion& row : rows) {
    const UniqueFd copies[] = {UniqueFd(dup(file.get()))};
    EXPECT_FALSE(GuestMemory::map({&row, 1}, copies)) << row.guest << " " << row.bytes;
  }
  const MemoryRegion twice[] = {{0, 0x1000, 0x10000, 0}, {0xfff, 0x1000, 0x20000, 0}};
  const UniqueFd copies[] = {UniqueFd(dup(file.get())), UniqueFd(dup(file.get()))};
  EXPECT_FALSE(GuestMemory::map(twice, copies));
  EXPECT_FALSE(GuestMemory::map({twice, 1}, copies)) << "a descriptor too many";
  EXPECT_TRUE(GuestMemory::map({twice, 1}, {copies, 1}));
}

}  // namespace
}  // namespace verbatim::ulp::disk::vhost
