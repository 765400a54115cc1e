#include "ulp/rds/wire/connect.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace verbatim::ulp::rds {
namespace {

constexpr std::uint16_t kMinors = 0x0003;
constexpr std::size_t kRestBytes = 24;  // After the addresses.

std::size_t address_bytes(int family) { return family == AF_INET6 ? 16 : 4; }

SocketAddress load_address(const std::byte* at, int family) {
  if (family == AF_INET6) {
    std::array<std::uint8_t, 16> bytes;
    std::memcpy(bytes.data(), at, bytes.size());
    return SocketAddress::ipv6(bytes);
  }
  std::array<std::uint8_t, 4> bytes;
  std::memcpy(bytes.data(), at, bytes.size());
  return SocketAddress::ipv4(bytes);
}

void store_address(std::byte* at, const SocketAddress& address) {
  if (address.is_ipv6()) {
    const auto bytes = address.ipv6_bytes();
    std::memcpy(at, bytes.data(), bytes.size());
  } else {
    const auto bytes = address.ipv4_bytes();
    std::memcpy(at, bytes.data(), bytes.size());
  }
}

}  // namespace

std::expected<ConnectData, WireError> decode_connect(ByteSpan bytes, int family) {
  const std::size_t each = address_bytes(family);
  if (bytes.size() < 2 * each + kRestBytes) return std::unexpected(WireError::too_short);
  const std::byte* const rest = &bytes[2 * each];
  return ConnectData{
      .source = load_address(&bytes[0], family),
      .destination = load_address(&bytes[each], family),
      .version = {std::to_integer<std::uint8_t>(rest[0]), std::to_integer<std::uint8_t>(rest[1])},
      .minor_mask = load_be<std::uint16_t>(rest + 2),
      .tos = std::to_integer<std::uint8_t>(rest[4]),
      .acknowledged = load_be<std::uint64_t>(rest + 8),
      .credit = load_be<std::uint32_t>(rest + 16)};
}

PrivateData encode(const ConnectData& data) {
  std::array<std::byte, 2 * 16 + kRestBytes> out{};
  const std::size_t each = address_bytes(data.source.family());
  store_address(&out[0], data.source);
  store_address(&out[each], data.destination);
  std::byte* const rest = &out[2 * each];
  rest[0] = std::byte{data.version.major};
  rest[1] = std::byte{data.version.minor};
  store_be(rest + 2, data.minor_mask);
  rest[4] = std::byte{data.tos};
  store_be(rest + 8, data.acknowledged);
  store_be(rest + 16, data.credit);
  return to_private_data(std::span(out).first(2 * each + kRestBytes));
}

std::expected<Version, WireError> version_for(const ConnectData& request) {
  const auto common = static_cast<std::uint16_t>(request.minor_mask & kMinors);
  if (request.version == Version{3, 1}) return request.version;
  if (request.version.major != 4 || common == 0) return std::unexpected(WireError::version);
  return Version{4, static_cast<std::uint8_t>(std::bit_width(common) - 1)};
}

PrivateData encode_rejection() {
  const int reason = 1;
  return to_private_data(std::as_bytes(std::span(&reason, 1)));
}

}  // namespace verbatim::ulp::rds
