#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/types.h"

namespace verbatim::wire {

/// XRC Extended Transport Header (IBA volume 1, annex A14): the number of the shared receive queue
/// that a request uses.
///
///     byte   0      1-3
///          +------+------------+
///          | rsvd | XRCSRQ     |
///          +------+------------+
struct XrcEth {
  static constexpr std::size_t kSize = 4;
  SrqNumber srq{};
  friend bool operator==(const XrcEth&, const XrcEth&) = default;
};

inline XrcEth decode_xrc_eth(std::span<const std::byte, XrcEth::kSize> bytes) {
  return {.srq = static_cast<SrqNumber>(load_be24(&bytes[1]))};
}

inline void encode(const XrcEth& header, std::span<std::byte, XrcEth::kSize> out) {
  out[0] = std::byte{0};
  store_be24(&out[1], raw(header.srq));
}

}  // namespace verbatim::wire
