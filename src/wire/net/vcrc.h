#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"

/// The variant CRC of InfiniBand (IBA volume 1, section 7.8.2): 16 bits over LRH to ICRC, with the
/// polynomial x^16 + x^12 + x^3 + x + 1, made anew at each hop. It stands behind the ICRC; its bits
/// have the ICRC's order: least significant byte first.
namespace verbatim::wire {

inline constexpr std::size_t kVcrcBytes = 2;

/// The CRC of a packet whose pieces lie apart: feed them in order, then take the value.
class Vcrc {
 public:
  void update(ByteSpan bytes);
  std::uint16_t value() const { return static_cast<std::uint16_t>(~state_); }

 private:
  std::uint16_t state_ = 0xffff;
};

inline void store_vcrc(std::uint16_t value, std::span<std::byte, kVcrcBytes> out) {
  store_be(out.data(), std::byteswap(value));
}
inline std::uint16_t load_vcrc(std::span<const std::byte, kVcrcBytes> bytes) {
  return std::byteswap(load_be<std::uint16_t>(bytes.data()));
}

}  // namespace verbatim::wire
