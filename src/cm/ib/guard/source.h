#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/net/address.h"
#include "base/net/path.h"

namespace verbatim::cm {

/// The address that a message comes from, without port and scope. Any peer can claim any GUID, so
/// an address is part of each key that identifies a peer.
using Source = std::array<std::uint8_t, 16>;
inline Source source_of(const SocketAddress& address) { return address.ipv6_bytes(); }

/// Returns the source of a path: over InfiniBand the peer's GID if it has one, for in another
/// subnet the LID is a router's; else the LID, after zeros.
inline Source source_of(const verbatim::Path& path) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&path);
  if (infiniband == nullptr) return source_of(verbatim::address_of(path));
  if (infiniband->grh) return infiniband->grh->destination.bytes;
  Source source{};
  const auto lid = static_cast<std::uint16_t>(infiniband->dlid);
  source[14] = static_cast<std::uint8_t>(lid >> 8);
  source[15] = static_cast<std::uint8_t>(lid);
  return source;
}

/// Returns what counts as one source where addresses are cheap: a host may have all addresses of
/// its IPv6 network (/64), unless they are link-local. So all hosts of another InfiniBand subnet
/// count as one.
inline Source network_of(Source source) {
  const bool is_ipv4 =
      std::all_of(source.begin(), source.begin() + 10, [](std::uint8_t byte) { return byte == 0; });
  const bool is_link_local = source[0] == 0xfe && (source[1] & 0xc0) == 0x80;
  if (!is_ipv4 && !is_link_local) std::fill(source.begin() + 8, source.end(), std::uint8_t{0});
  return source;
}

}  // namespace verbatim::cm
