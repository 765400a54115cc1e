#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/net/address.h"
#include "wire/net/ip.h"

namespace verbatim::wire {

inline constexpr std::uint16_t kTypeRoceV1 = 0x8915;  // IBA annex A16.
inline constexpr std::uint16_t kTypeArp = 0x0806;

enum class FrameUse : std::uint8_t { other, neighbours, roce_v1, roce_v2 };

/// Whose an Ethernet frame is.
struct FrameOwner {
  FrameUse use = FrameUse::other;
  std::uint32_t destination_qpn = 0;  // Of RoCE's BTH: 24 bits.
  friend bool operator==(const FrameOwner&, const FrameOwner&) = default;
};

/// Looks at an untagged frame as far as its BTH. Accepts any bytes: what is cut short, has IPv4
/// options or IPv6 extension headers, or is a fragment, is `other`.
FrameOwner owner_of(ByteSpan frame);

/// A RoCE v2 packet in an untagged frame.
struct RoceV2Frame {
  IpUdp headers;           // With UDP's ports.
  MutableByteSpan packet;  // From the BTH on, without Ethernet's padding; borrowed.
};
/// Nothing if the frame is none, or its lengths or IPv4 checksum are wrong.
std::optional<RoceV2Frame> decode_roce_v2_frame(MutableByteSpan frame);

/// Writes the first 14 bytes of a frame.
void encode_ethernet(const MacAddress& to, const MacAddress& from, std::uint16_t type,
                     std::byte* out);
/// Writes the headers around the packet that lies behind them in `frame`: Ethernet, IP and UDP.
/// Over IPv6 UDP has its checksum, which that asks for; over IPv4 none (IBA A17.4.5.3).
void encode_roce_v2_headers(const MacAddress& to, const MacAddress& from, const IpFlow& flow,
                            std::uint16_t identification, MutableByteSpan frame);
/// Bytes before the BTH.
inline std::size_t roce_v2_header_bytes(const IpFlow& flow) {
  return 14 + flow.ip_header_bytes() + kUdpHeaderBytes;
}

}  // namespace verbatim::wire
