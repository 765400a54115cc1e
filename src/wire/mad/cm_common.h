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

/// Definitions that several messages of the communication manager share (IBA volume 1, chapter 12).
namespace verbatim::wire {

/// Names a connection (or a service resolution) at one of its ends (IBA 12.6.5). In a message,
/// "local" is the sender's id and "remote" the receiver's.
enum class CommunicationId : std::uint32_t {};
/// The service that a listener offers and a REQ asks for (IBA 12.6.7.1, annex A3).
enum class ServiceId : std::uint64_t {};

/// The services whose ids equal `id` in the bits of `mask`; a mask of zero: none. Bits of `id`
/// outside of the mask are zero.
struct ServiceRange {
  std::uint64_t mask = 0;
  std::uint64_t id = 0;

  static constexpr ServiceRange of(ServiceId id, std::uint64_t mask = ~std::uint64_t{0}) {
    return {.mask = mask, .id = static_cast<std::uint64_t>(id) & mask};
  }
  constexpr bool empty() const { return mask == 0; }
  constexpr bool overlaps(const ServiceRange& other) const {
    return ((id ^ other.id) & mask & other.mask) == 0 && !empty() && !other.empty();
  }
  constexpr bool contains(ServiceId service) const { return overlaps(of(service)); }
  friend auto operator<=>(const ServiceRange&, const ServiceRange&) = default;
};

/// The 232 bytes after the MAD's header.
using CmBody = std::span<const std::byte, kMadDataBytes>;
using MutableCmBody = std::span<std::byte, kMadDataBytes>;

/// Private data at the end of a message, which the consumers exchange. The field is always sent in
/// full.
template <std::size_t N>
using CmPrivateData = std::array<std::byte, N>;

/// A CM time-out: 4.096 us * 2^exponent, 5 bits (IBA 12.7.31).
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
/// Returns `width` bits of a byte, the lowest of which is bit `shift`.
constexpr std::uint8_t bits_of(std::byte value, unsigned shift, unsigned width) {
  return static_cast<std::uint8_t>(std::to_integer<unsigned>(value) >> shift & ((1u << width) - 1));
}
constexpr std::byte to_bits(unsigned value, unsigned shift, unsigned width) {
  return static_cast<std::byte>((value & ((1u << width) - 1)) << shift);
}

}  // namespace verbatim::wire
