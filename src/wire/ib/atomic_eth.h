#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/types.h"

namespace verbatim::wire {

/// Atomic Extended Transport Header (IBA volume 1, section 9.3.4).
///
///     byte   0-7               8-11    12-19              20-27
///          +-----------------+-------+------------------+--------------+
///          | virtual address | R_Key | swap or add data | compare data |
///          +-----------------+-------+------------------+--------------+
struct AtomicEth {
  static constexpr std::size_t kSize = 28;
  std::uint64_t address = 0;
  MemoryKey key{};
  std::uint64_t swap_or_add = 0;  // CompareSwap: the new value. FetchAdd: the addend.
  std::uint64_t compare = 0;      // CompareSwap only.
  friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

inline AtomicEth decode_atomic_eth(std::span<const std::byte, AtomicEth::kSize> bytes) {
  return {.address = load_be<std::uint64_t>(&bytes[0]),
          .key = static_cast<MemoryKey>(load_be<std::uint32_t>(&bytes[8])),
          .swap_or_add = load_be<std::uint64_t>(&bytes[12]),
          .compare = load_be<std::uint64_t>(&bytes[20])};
}

inline void encode(const AtomicEth& header, std::span<std::byte, AtomicEth::kSize> out) {
  store_be(&out[0], header.address);
  store_be(&out[8], raw(header.key));
  store_be(&out[12], header.swap_or_add);
  store_be(&out[20], header.compare);
}

}  // namespace verbatim::wire
