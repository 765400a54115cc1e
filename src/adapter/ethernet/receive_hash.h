#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "wire/net/frame.h"

/// Receive-side scaling: a hash of a frame's addresses and ports selects its work queue, so that
/// all frames of a flow use the same one. Pure.
namespace verbatim::adapter {

inline constexpr std::size_t kHashKeyBytes = 40;  // Enough for two IPv6 addresses and two ports.

/// With the values of `enum ibv_rx_hash_fields`.
enum HashField : std::uint32_t {
  kHashSourceIpv4 = 1u << 0,
  kHashDestinationIpv4 = 1u << 1,
  kHashSourceIpv6 = 1u << 2,
  kHashDestinationIpv6 = 1u << 3,
  kHashSourcePortTcp = 1u << 4,
  kHashDestinationPortTcp = 1u << 5,
  kHashSourcePortUdp = 1u << 6,
  kHashDestinationPortUdp = 1u << 7,
  kHashSpi = 1u << 8,
  kHashInner = 1u << 31,  // Of the tunnel's content.
};
inline constexpr std::uint32_t kHashFieldsAll = 0x1ff | kHashInner;

struct ReceiveHash {
  std::uint32_t fields = 0;  // HashField bits.
  std::array<std::uint8_t, kHashKeyBytes> key{};
};

/// The Toeplitz hash of at most kHashKeyBytes - 4 bytes (Microsoft's RSS specification).
std::uint32_t toeplitz(const std::array<std::uint8_t, kHashKeyBytes>& key, ByteSpan input);

/// Hashes those of `hash.fields` that the frame has, in the order source address, destination
/// address, source port, destination port, SPI. Returns 0 if it has none.
std::uint32_t hash_of(const ReceiveHash& hash, const wire::Frame& frame);

}  // namespace verbatim::adapter
