#pragma once

#include <bit>
#include <concepts>

namespace verbatim::ulp::disk::vhost {

/// Virtio's numbers, of version 1.
template <std::unsigned_integral T>
constexpr T to_little_endian(T value) {
  if constexpr (std::endian::native == std::endian::big && sizeof(T) > 1) {
    return std::byteswap(value);
  }
  return value;
}
template <std::unsigned_integral T>
constexpr T from_little_endian(T value) {
  return to_little_endian(value);
}

}  // namespace verbatim::ulp::disk::vhost
