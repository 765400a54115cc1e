#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/os/fence.h"

/// Bytes in wire format: borrowed spans, and big-endian loads and stores at named offsets.
namespace verbatim {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

template <std::unsigned_integral T>
constexpr T to_big_endian(T value) {
  if constexpr (std::endian::native == std::endian::little && sizeof(T) > 1) {
    return std::byteswap(value);
  }
  return value;
}

/// Loads the big-endian unsigned integer at `at`. The caller has checked the bounds.
template <std::unsigned_integral T>
T load_be(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return to_big_endian(value);
}

template <std::unsigned_integral T>
void store_be(std::byte* at, T value) {
  value = to_big_endian(value);
  std::memcpy(at, &value, sizeof value);
}

/// 24-bit fields: queue pair numbers and packet sequence numbers.
inline std::uint32_t load_be24(const std::byte* at) {
  return std::to_integer<std::uint32_t>(at[0]) << 16 | std::to_integer<std::uint32_t>(at[1]) << 8 |
         std::to_integer<std::uint32_t>(at[2]);
}

inline void store_be24(std::byte* at, std::uint32_t value) {
  at[0] = static_cast<std::byte>(value >> 16);
  at[1] = static_cast<std::byte>(value >> 8);
  at[2] = static_cast<std::byte>(value);
}

/// Copies `from` to `to`, which has the same size. Writes the last 8 bytes after all others, in one
/// store if they lie in one aligned word (below 8 bytes: the largest power of two that fits).
/// Programs wait for a message by spinning on its last byte, and memcpy copies in any order.
inline void copy_in_order(std::byte* to, ByteSpan from) {
  const auto last_bytes = [&]<typename Last>(Last) {
    const std::size_t before = from.size() - sizeof(Last);
    Last last;
    std::memcpy(&last, from.data() + before, sizeof last);
    if (before > 0) {
      std::memcpy(to, from.data(), before);
      release_fence();
    }
    std::memcpy(to + before, &last, sizeof last);
  };
  if (from.size() >= sizeof(std::uint64_t)) return last_bytes(std::uint64_t{});
  if (from.size() >= sizeof(std::uint32_t)) return last_bytes(std::uint32_t{});
  if (from.size() >= sizeof(std::uint16_t)) return last_bytes(std::uint16_t{});
  if (!from.empty()) last_bytes(std::uint8_t{});
}

}  // namespace verbatim
