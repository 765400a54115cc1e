#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "fabric/management/management_net.h"
#include "wire/mad/management_packet.h"
#include "wire/net/grh.h"
#include "wire/net/lrh.h"

namespace verbatim::fabric {

/// A management datagram as the UD packet that it is on a cable, LRH to ICRC; the ICRC is zeros, as
/// in packets of programs.
struct ManagementPacket {
  std::uint8_t lane = 0;
  std::size_t size = 0;
  std::array<std::byte, wire::Lrh::kSize + wire::Grh::kSize + wire::kManagementPacketBytes>
      storage{};
  ByteSpan bytes() const { return ByteSpan(storage).first(size); }
};
ManagementPacket packet_of(const ManagementDatagram& datagram);
/// Nothing if the packet, LRH to ICRC, is no datagram of that size. Its ICRC is not looked at.
std::optional<ManagementDatagram> datagram_of(ByteSpan packet);

}  // namespace verbatim::fabric
