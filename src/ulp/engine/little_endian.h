#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>

/// Little-endian loads and stores at named offsets, for NVMe, LNet and virtio. The big-endian ones
/// are in `base/bytes.h`.
namespace verbatim {

template <std::unsigned_integral T>
constexpr T to_little_endian(T value) {
  if constexpr (std::endian::native == std::endian::big && sizeof(T) > 1) {
    return std::byteswap(value);
  }
  return value;
}

/// Loads the little-endian unsigned integer at `at`. The caller has checked the bounds.
template <std::unsigned_integral T>
T load_le(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return to_little_endian(value);
}

template <std::unsigned_integral T>
void store_le(std::byte* at, T value) {
  value = to_little_endian(value);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace verbatim
