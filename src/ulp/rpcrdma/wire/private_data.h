#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace verbatim::ulp::rpcrdma {

/// What each side says of itself in the connection manager's private data (RFC 8797, section 4).
///
///     byte   0-3          4         5                 6             7
///         +------------+---------+-----------------+-------------+-------------+
///         | 0xf6ab0e18 | version | flags           | send size   | receive size|
///         +------------+---------+-----------------+-------------+-------------+
///
/// Sizes are in units of 1 KiB, less one.
struct ConnectionFacts {
  static constexpr std::size_t kSize = 8;
  static constexpr std::uint32_t kBytesWithout = 1024;  // What peers without it send and receive.
  bool takes_invalidation = false;                      // SEND with invalidate may be sent to it.
  std::uint32_t send_bytes = kBytesWithout;
  std::uint32_t receive_bytes = kBytesWithout;
  friend bool operator==(const ConnectionFacts&, const ConnectionFacts&) = default;
};

/// None: the peer says nothing of the kind, so the defaults hold.
std::optional<ConnectionFacts> decode_facts(ByteSpan private_data);
std::array<std::byte, ConnectionFacts::kSize> encode(const ConnectionFacts& facts);

}  // namespace verbatim::ulp::rpcrdma
