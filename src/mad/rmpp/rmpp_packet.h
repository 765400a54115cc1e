#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/net/path.h"
#include "base/types.h"
#include "wire/mad/management_packet.h"
#include "wire/mad/rmpp.h"

namespace verbatim::mad {

using MadBytes = std::array<std::byte, wire::kMadBytes>;

/// Who is at the other end of a transfer, and how to get there: `path.dlid` is the peer's.
struct RmppPeer {
  InfinibandPath path;
  Qpn qpn;
  std::uint16_t pkey_index = 0;
};

/// A segment, or what is said about segments.
struct RmppPacket {
  RmppPeer peer;
  MadBytes mad{};
};

/// Names a transfer. A peer may send and receive with one transaction id.
struct RmppKey {
  std::uint64_t transaction = 0;
  wire::MadClass management_class{};
  std::uint8_t class_version = 0;
  wire::MadMethod method{};  // Of the data.
  Lid peer_lid{};
  Qpn peer_qpn;
  friend auto operator<=>(const RmppKey&, const RmppKey&) = default;
};

/// Who receives data speaks with the other response bit (IBA 13.6.2.2).
constexpr wire::MadMethod opposite(wire::MadMethod method) {
  constexpr std::uint8_t kResponseBit = 0x80;
  return static_cast<wire::MadMethod>(static_cast<std::uint8_t>(method) ^ kResponseBit);
}

inline RmppKey rmpp_key(const wire::MadHeader& header, const RmppPeer& peer) {
  return {.transaction = header.transaction,
          .management_class = header.management_class,
          .class_version = header.class_version,
          .method = header.method,
          .peer_lid = peer.path.dlid,
          .peer_qpn = peer.qpn};
}

/// Payload lengths count from behind the RMPP header: a segment's class header is in them.
constexpr std::size_t kRmppPayloadAt = wire::MadHeader::kSize + wire::RmppHeader::kSize;

}  // namespace verbatim::mad
