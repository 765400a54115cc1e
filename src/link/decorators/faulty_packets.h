#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/net/path.h"
#include "wire/net/grh.h"
#include "wire/net/lrh.h"

/// What fault injection reads of packets: where their BTH is, and who their peer is.
namespace verbatim::link {

/// Returns the bytes before the BTH: for RoCE v1 the packet begins with the GRH.
inline std::size_t bytes_before_bth(const Path& path) {
  if (const auto* const infiniband = std::get_if<InfinibandPath>(&path)) {
    return wire::Lrh::kSize + (infiniband->grh ? wire::Grh::kSize : 0);
  }
  return std::holds_alternative<RoceV1Path>(path) ? wire::Grh::kSize : 0;
}

/// Tells peers apart. A LID stands where an address has its last bytes.
inline SocketAddress identity_of(const Path& path) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband == nullptr) return address_of(path);
  std::array<std::uint8_t, 16> bytes{};
  const auto lid = static_cast<std::uint16_t>(infiniband->dlid);
  bytes[14] = static_cast<std::uint8_t>(lid >> 8);
  bytes[15] = static_cast<std::uint8_t>(lid);
  return SocketAddress::ipv6(bytes);
}

/// The way back to the sender of a packet that begins with an LRH.
inline Path sender_of(ByteSpan packet) {
  InfinibandPath path;
  const auto lrh = wire::decode_lrh(packet);
  if (!lrh) return path;
  path.dlid = lrh->slid;
  if (lrh->next == wire::Lrh::Next::grh) path.grh.emplace();
  return path;
}

template <typename Span>
Span from_bth(const Path& path, Span packet) {
  return packet.subspan(std::min(bytes_before_bth(path), packet.size()));
}

/// Returns the `index`-th packet of those that are sent or received together.
template <typename Span>
Span packet_of(Span bytes, std::size_t packet_bytes, std::size_t index) {
  const std::size_t at = index * packet_bytes;
  return bytes.subspan(at, std::min(packet_bytes, bytes.size() - at));
}

}  // namespace verbatim::link
