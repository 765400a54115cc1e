#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace verbatim::wire {

/// Flush Extended Transport Header (IBA volume 1, annex A19): which bytes of earlier WRITEs a FLUSH
/// is for, and how far they must have got before it is answered.
///
///     bit    31-6       5-4           3-0
///          +----------+-------------+----------------+
///          | reserved | selectivity | placement type |
///          +----------+-------------+----------------+
///
/// Reserved bits are ignored on receive and sent as zero.
struct Feth {
  static constexpr std::size_t kSize = 4;
  enum Placement : std::uint8_t { kGlobal = 1, kPersistent = 2 };  // A set of bits.
  enum class Selectivity : std::uint8_t { range = 0, region = 1 };
  std::uint8_t placement = 0;
  Selectivity selectivity{};
  friend bool operator==(const Feth&, const Feth&) = default;
};

inline Feth decode_feth(std::span<const std::byte, Feth::kSize> bytes) {
  const auto word = load_be<std::uint32_t>(bytes.data());
  return {.placement = static_cast<std::uint8_t>(word & 0xf),
          .selectivity = static_cast<Feth::Selectivity>(word >> 4 & 3)};
}

inline void encode(const Feth& header, std::span<std::byte, Feth::kSize> out) {
  store_be(out.data(),
           static_cast<std::uint32_t>(header.selectivity) << 4 | std::uint32_t{header.placement});
}

}  // namespace verbatim::wire
