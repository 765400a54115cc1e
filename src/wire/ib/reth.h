#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/types.h"

namespace verbatim::wire {

/// RDMA Extended Transport Header (IBA volume 1, section 9.3.3): the remote memory of a WRITE or
/// READ.
///
///     byte   0-7               8-11     12-15
///          +-----------------+--------+------------+
///          | virtual address | R_Key  | DMA length |
///          +-----------------+--------+------------+
struct Reth {
  static constexpr std::size_t kSize = 16;
  std::uint64_t address = 0;
  MemoryKey key{};
  std::uint32_t length = 0;  // Bytes of the whole message, at most 2^31 (IBA C9-3).
  friend bool operator==(const Reth&, const Reth&) = default;
};

inline Reth decode_reth(std::span<const std::byte, Reth::kSize> bytes) {
  return {.address = load_be<std::uint64_t>(&bytes[0]),
          .key = static_cast<MemoryKey>(load_be<std::uint32_t>(&bytes[8])),
          .length = load_be<std::uint32_t>(&bytes[12])};
}

inline void encode(const Reth& header, std::span<std::byte, Reth::kSize> out) {
  store_be(&out[0], header.address);
  store_be(&out[8], raw(header.key));
  store_be(&out[12], header.length);
}

}  // namespace verbatim::wire
