#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/types.h"
#include "wire/mad/mad.h"

/// What the messages of the communication manager share (IBA volume 1, chapter 12).
namespace verbatim::wire {

/// Names a connection (or a service resolution) at one of its two ends (IBA 12.6.5). A message
/// carries its sender's as "local" and its receiver's as "remote".
enum class CommunicationId : std::uint32_t {};
/// What a listener offers and a REQ asks for (IBA 12.6.7.1, annex A3).
enum class ServiceId : std::uint64_t {};

/// The 232 bytes behind the MAD's header.
using CmBody = std::span<const std::byte, kMadDataBytes>;
using MutableCmBody = std::span<std::byte, kMadDataBytes>;

/// The bytes that the consumers exchange at the end of a message. The field is always sent in full.
template <std::size_t N>
using CmPrivateData = std::array<std::byte, N>;

/// A time of the communication manager: 4.096 us * 2^exponent, 5 bits (IBA 12.7.31).
constexpr std::uint64_t cm_time_ns(std::uint8_t exponent) {
  return std::uint64_t{4096} << (exponent & 31);
}

template <std::size_t N>
void load_bytes(std::array<std::byte, N>& to, const std::byte* at) {
  std::memcpy(to.data(), at, N);
}
template <std::size_t N>
void store_bytes(std::byte* at, const std::array<std::byte, N>& from) {
  std::memcpy(at, from.data(), N);
}
inline Gid load_gid(const std::byte* at) {
  Gid gid;
  std::memcpy(gid.bytes.data(), at, gid.bytes.size());
  return gid;
}
inline void store_gid(std::byte* at, const Gid& gid) {
  std::memcpy(at, gid.bytes.data(), gid.bytes.size());
}
inline CommunicationId load_communication_id(const std::byte* at) {
  return static_cast<CommunicationId>(load_be<std::uint32_t>(at));
}
/// The `width` bits of a byte that end `shift` bits above its lowest.
constexpr std::uint8_t bits_of(std::byte value, unsigned shift, unsigned width) {
  return static_cast<std::uint8_t>(std::to_integer<unsigned>(value) >> shift & ((1u << width) - 1));
}
constexpr std::byte to_bits(unsigned value, unsigned shift, unsigned width) {
  return static_cast<std::byte>((value & ((1u << width) - 1)) << shift);
}

}  // namespace verbatim::wire
