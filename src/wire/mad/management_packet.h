#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "wire/ib/bth.h"
#include "wire/ib/deth.h"
#include "wire/ib/packet.h"
#include "wire/mad/mad.h"
#include "wire/net/grh.h"
#include "wire/net/icrc.h"

/// A management datagram in a RoCE packet: BTH, DETH, 256 bytes of MAD, ICRC. Sent from queue pair
/// 1 to queue pair 1 (IBA 13.5.1, A17.5).
namespace verbatim::wire {

using MadSpan = std::span<const std::byte, kMadBytes>;

inline constexpr Qpn kManagementQpn{1};
/// The well-known Q_Key of queue pair 1 (IBA 10.2.5).
inline constexpr QKey kManagementQKey{0x8001'0000};
inline constexpr std::size_t kManagementPacketBytes =
    Bth::kSize + Deth::kSize + kMadBytes + kIcrcBytes;

/// The bytes after the UDP header, or after the GRH (RoCE v1).
class ManagementPacket {
 public:
  ByteSpan bytes() const { return ByteSpan(bytes_).subspan(has_grh_ ? 0 : Grh::kSize); }

 private:
  friend ManagementPacket encode_management_packet(const IpFlow& flow, Psn psn, MadSpan mad);
  bool has_grh_ = false;
  std::array<std::byte, Grh::kSize + kManagementPacketBytes> bytes_{};
};

/// `flow`: the IP header that the kernel will write. The IPv4 identification is that of a datagram
/// that is sent alone.
ManagementPacket encode_management_packet(const IpFlow& flow, Psn psn, MadSpan mad);

struct ManagementDatagram {
  MadSpan mad;  // Borrowed from the packet.
  Qpn source_qpn;
};

/// Returns the MAD of a packet; nothing if the packet is for another queue pair or key, or is no
/// MAD.
std::optional<ManagementDatagram> management_datagram_of(const Packet& packet);

}  // namespace verbatim::wire
