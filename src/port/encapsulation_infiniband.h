#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "base/net/path.h"
#include "wire/error.h"
#include "wire/net/grh.h"
#include "wire/net/icrc.h"
#include "wire/net/lrh.h"

/// The headers before the BTH of InfiniBand packets: an LRH, and a GRH if the path has one.
namespace verbatim::port {

inline constexpr std::size_t kEncapsulationBytesMax = wire::Lrh::kSize + wire::Grh::kSize;

/// First LID of a multicast group (IBA 4.1.3).
inline constexpr std::uint16_t kMulticastLid = 0xc000;
inline constexpr Lid kPermissiveLid{0xffff};
inline bool is_multicast(Lid lid) { return lid >= Lid{kMulticastLid} && lid != kPermissiveLid; }
inline constexpr std::uint8_t kServiceLevelMax = 15;

inline std::size_t encapsulation_bytes(const InfinibandPath& path) {
  return wire::Lrh::kSize + (path.grh ? wire::Grh::kSize : 0);
}
/// What the ICRCs of all packets of this path begin with.
wire::IcrcSeed icrc_seed(const InfinibandPath& path);
/// Writes the headers of a packet that has `packet_bytes` from the BTH to the end of the ICRC.
/// `out` holds `encapsulation_bytes`.
void encapsulate(const InfinibandPath& path, std::uint8_t lane, std::size_t packet_bytes,
                 MutableByteSpan out);

/// A received packet without its headers.
struct InfinibandPacket {
  InfinibandPath from;     // Leads back to the sender: LIDs and GIDs in the order
                           // of an answer.
  InfinibandPath to;       // As the packet says.
  Gid group;               // Zero for unicast.
  MutableByteSpan packet;  // From the BTH to the end of the ICRC. Borrowed.
};
/// What follows the ICRC, a VCRC for instance, is ignored. The lengths that LRH and GRH say must
/// agree, and there is room for a BTH and an ICRC.
std::expected<InfinibandPacket, wire::WireError> decapsulate(MutableByteSpan bytes);

}  // namespace verbatim::port
