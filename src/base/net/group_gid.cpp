#include "base/net/group_gid.h"

#include <algorithm>

#include "base/bytes.h"

namespace verbatim {
namespace {

constexpr std::uint16_t kPrefix = 0xff12;
constexpr std::uint16_t kFullMember = 0x8000;

/// 0x401b, 0x601b: IPv4 and IPv6 over InfiniBand; rdma_cm has 01 in the place of 1b.
std::uint16_t signature(bool is_ipv6, GroupUse use) {
  return static_cast<std::uint16_t>((is_ipv6 ? 0x6000 : 0x4000) |
                                    (use == GroupUse::rdma_cm ? 0x01 : 0x1b));
}

bool is_gid(const std::array<std::uint8_t, 16>& address) {
  return address[0] == 0xff && (address[1] & 0xf0) == 0x10 && address[2] == 0xa0 &&
         address[3] == 0x1b;
}

}  // namespace

Gid group_gid_of(const SocketAddress& group, GroupUse use, PKey pkey) {
  const bool is_ipv6 = group.family() == AF_INET6;
  if (is_ipv6 && is_gid(group.ipv6_bytes())) return {group.ipv6_bytes()};
  Gid gid;
  auto* const bytes = reinterpret_cast<std::byte*>(gid.bytes.data());
  store_be(bytes, kPrefix);
  store_be(bytes + 2, signature(is_ipv6, use));
  store_be(bytes + 4, static_cast<std::uint16_t>(raw(pkey) | kFullMember));
  if (is_ipv6) {
    constexpr std::size_t kFirst = 6;
    const auto address = group.ipv6_bytes();
    std::ranges::copy(address.begin() + kFirst, address.end(), gid.bytes.begin() + kFirst);
  } else {
    constexpr std::uint8_t kUpperBits = 0x0f;
    auto address = group.ipv4_bytes();
    address[0] &= kUpperBits;
    std::ranges::copy(address, gid.bytes.end() - static_cast<long>(address.size()));
  }
  return gid;
}

Gid broadcast_gid_of(PKey pkey) {
  const auto all = SocketAddress::ipv4({255, 255, 255, 255});
  Gid gid = group_gid_of(all, GroupUse::ip_over_infiniband, pkey);
  gid.bytes[12] = 0xff;  // The one IPv4 address that keeps its upper bits.
  return gid;
}

}  // namespace verbatim
