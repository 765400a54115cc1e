#include "base/bytes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace verbatim {
namespace {

constexpr std::array<std::byte, 9> kBytes{std::byte{0xff}, std::byte{0x11}, std::byte{0x22},
                                          std::byte{0x33}, std::byte{0x44}, std::byte{0x55},
                                          std::byte{0x66}, std::byte{0x77}, std::byte{0x88}};

TEST(Bytes, LoadsAreBigEndianAtAnyAlignment) {
  EXPECT_EQ(load_be<std::uint8_t>(&kBytes[1]), 0x11);
  EXPECT_EQ(load_be<std::uint16_t>(&kBytes[1]), 0x1122);
  EXPECT_EQ(load_be24(&kBytes[1]), 0x112233u);
  EXPECT_EQ(load_be<std::uint32_t>(&kBytes[1]), 0x11223344u);
  EXPECT_EQ(load_be<std::uint64_t>(&kBytes[1]), 0x1122334455667788u);
}

TEST(Bytes, StoresAreReadBackAndStayWithinTheirWidth) {
  std::array<std::byte, 10> out{};
  store_be(&out[1], std::uint64_t{0x1122334455667788});
  EXPECT_TRUE(std::equal(out.begin() + 1, out.begin() + 9, kBytes.begin() + 1));
  EXPECT_EQ(out[9], std::byte{0});
  out.fill(std::byte{0});
  store_be24(&out[1], 0xaa112233);
  EXPECT_EQ(load_be<std::uint32_t>(&out[0]), 0x00112233u);
  EXPECT_EQ(out[4], std::byte{0});
}

TEST(Bytes, ToBigEndianIsItsOwnInverse) {
  EXPECT_EQ(to_big_endian(to_big_endian(0x11223344u)), 0x11223344u);
  EXPECT_EQ(to_big_endian(std::uint8_t{7}), 7);
}

TEST(Bytes, CopyInOrderCopiesEveryLengthAndNothingBeside) {
  std::vector<std::byte> from(300);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  for (std::size_t length = 0; length <= from.size(); ++length) {
    std::vector<std::byte> to(length + 2);
    copy_in_order(&to[1], ByteSpan(from).first(length));
    EXPECT_TRUE(std::equal(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(length),
                           to.begin() + 1));
    EXPECT_EQ(to.front(), std::byte{0});
    EXPECT_EQ(to.back(), std::byte{0});
  }
}

// Not under ThreadSanitizer: as with RDMA, the reader sees only from the bytes themselves that they
// have arrived, which is a data race in C++.
#ifndef __SANITIZE_THREAD__
TEST(Bytes, WhoSeesTheLastBytesOfACopySeesAll) {
  constexpr std::size_t kLength = 4096;
  constexpr std::size_t kLast = kLength - sizeof(std::uint64_t);
  alignas(64) std::array<std::byte, kLength> to{};
  std::atomic<std::uint64_t> seen{0};
  constexpr std::uint64_t kRounds = 2000;
  std::jthread writer([&] {
    std::array<std::byte, kLength> from{};
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      from.fill(static_cast<std::byte>(round));
      copy_in_order(to.data(), from);
      while (seen.load(std::memory_order_acquire) != round) {
        std::this_thread::yield();
      }
    }
  });
  std::uint64_t torn = 0;
  auto* const last = reinterpret_cast<std::uint64_t*>(&to[kLast]);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const std::uint64_t expected = 0x0101010101010101 * (round & 0xff);
    while (std::atomic_ref(*last).load(std::memory_order_acquire) != expected) {
      std::this_thread::yield();
    }
    const auto byte = static_cast<std::byte>(round);
    torn += std::ranges::count_if(to, [&](std::byte one) { return one != byte; }) != 0 ? 1 : 0;
    seen.store(round, std::memory_order_release);
  }
  EXPECT_EQ(torn, 0u);
}
#endif

}  // namespace
}  // namespace verbatim
