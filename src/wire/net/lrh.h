#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "base/net/path.h"
#include "wire/error.h"

namespace verbatim::wire {

/// Local Route Header (IBA volume 1, section 7.7): first header of every InfiniBand packet.
///
///     byte   0             1                  2-3    4-5                    6-7
///          +------+------+------+----+------+------+-------+--------------+------+
///          | VL   | LVer | SL   | 00 | LNH  | DLID | 00000 | packet length| SLID |
///          +------+------+------+----+------+------+-------+--------------+------+
///     bits   4      4      4      2    2      16     5       11             16
///
/// Reserved bits are ignored on receive and sent as zero.
struct Lrh {
  static constexpr std::size_t kSize = 8;
  /// Link next header: what follows.
  enum class Next : std::uint8_t { raw = 0, ipv6 = 1, bth = 2, grh = 3 };

  std::uint8_t virtual_lane = 0;   // 4 bits.
  std::uint8_t service_level = 0;  // 4 bits.
  Next next = Next::bth;
  Lid dlid{};
  std::uint16_t length_words = 0;  // Of 4 bytes, from the LRH to the end of the ICRC: 11 bits.
  Lid slid{};
  friend bool operator==(const Lrh&, const Lrh&) = default;
};

/// Checks the length and the version.
std::expected<Lrh, WireError> decode_lrh(ByteSpan bytes);
void encode(const Lrh& header, std::span<std::byte, Lrh::kSize> out);

}  // namespace verbatim::wire
