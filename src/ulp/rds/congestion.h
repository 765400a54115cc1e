#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace verbatim::ulp::rds {

/// Which ports of an address are congested: a bit each, port p is bit p % 8 of byte p / 8. It
/// travels whole, as a message.
class CongestionMap {
 public:
  static constexpr std::size_t kSize = 8192;

  bool is_set(std::uint16_t port) const { return (bytes_[port / 8] & bit(port)) != std::byte{}; }
  void set(std::uint16_t port, bool is_congested) {
    if (is_congested) {
      bytes_[port / 8] |= bit(port);
    } else {
      bytes_[port / 8] &= ~bit(port);
    }
  }
  bool any() const {
    return std::ranges::any_of(bytes_, [](std::byte byte) { return byte != std::byte{}; });
  }
  /// Requires `bytes.size() == kSize`. Calls `freed(port)` for each that was set and is no more.
  template <typename Freed>
  void assign(ByteSpan bytes, Freed freed) {
    for (std::size_t at = 0; at < kSize; ++at) {
      const auto gone = static_cast<unsigned>(bytes_[at] & ~bytes[at]);
      bytes_[at] = bytes[at];
      for (unsigned i = 0; gone >> i != 0; ++i) {
        if ((gone >> i & 1) != 0) freed(static_cast<std::uint16_t>(at * 8 + i));
      }
    }
  }
  ByteSpan bytes() const { return bytes_; }

 private:
  static std::byte bit(std::uint16_t port) { return std::byte{1} << (port % 8); }

  std::array<std::byte, kSize> bytes_{};
};

}  // namespace verbatim::ulp::rds
