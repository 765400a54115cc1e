#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/ipoib/wire/ip.h"

namespace verbatim::ulp::ipoib {

/// What a router says of a packet that is too long for the next link: ICMP's "fragmentation needed"
/// (RFC 1191) or ICMPv6's "packet too big" (RFC 8201). `router` is of the packet's family.
inline constexpr std::size_t kTooLongBytesMax = 1280;
/// The length of the message; 0: none may be sent about this packet (RFC 1122, 3.2.2).
std::size_t encode_too_long(ByteSpan packet, const SocketAddress& router, std::uint32_t mtu,
                            std::span<std::byte, kTooLongBytesMax> out);

}  // namespace verbatim::ulp::ipoib
