#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/net/path.h"
#include "link/link.h"
#include "wire/net/icrc.h"
#include "wire/net/ip.h"

namespace verbatim::port {

/// Where packets leave, and what stands before each: resolved once, when a queue pair learns where
/// its peer is, and when a datagram's destination is first seen.
struct Route {
  Route(link::Stack& from, link::NextHop& hop, const Path& to);

  /// Writes what stands before the BTH: `header_bytes` bytes of a packet that has `packet_bytes`
  /// from the BTH on.
  void encapsulate(std::size_t packet_bytes, MutableByteSpan out) const;

  Path path;
  link::Stack* links;
  link::NextHop* next_hop;
  /// RoCE; of InfiniBand, what the GRH says, or zeros.
  wire::IpFlow headers;
  wire::IcrcSeed seed;
  std::uint8_t header_bytes = 0;  // Before the BTH. RoCE v2: none, since the kernel writes them.
  std::uint8_t lane = 0;          // Of a link that has some.
  bool lossless = false;          // The link has credits: `Burst::may_send`.
  bool has_icrc = true;           // False: the link's bytes cannot be damaged.
  bool is_migrated = true;        // InfiniBand: bit M of its packets.
  /// InfiniBand: packets leave no faster, for the path or the peer's link is slower than the own
  /// one (static rate, IBA 9.11); 0: at the link's rate.
  std::uint32_t rate_kbps = 0;
};

/// What a receiver of datagrams sees of these paths: addresses of RoCE; of InfiniBand, its GRH.
wire::IpFlow flow_of(const Path& from, const Path& to);

}  // namespace verbatim::port
