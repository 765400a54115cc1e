#pragma once

#include <concepts>
#include <cstddef>

namespace verbatim::inline v1::detail {

/// Reads and writes consecutive big-endian numbers.
template <std::unsigned_integral T>
void put(std::byte*& at, T value) {
  for (std::size_t shift = sizeof(T) * 8; shift != 0; shift -= 8)
    *at++ = static_cast<std::byte>(value >> (shift - 8));
}
template <std::unsigned_integral T>
T take(const std::byte*& at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value << 8 | static_cast<T>(*at++));
  return value;
}

}  // namespace verbatim::inline v1::detail
