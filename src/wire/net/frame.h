#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

/// Parses Ethernet frames for flow steering, checksum offload and receive-side scaling: which
/// layers there are, where they begin, and the fields that rules match.
namespace verbatim::wire {

inline constexpr std::size_t kEthernetHeaderBytes = 14;
inline constexpr std::size_t kVlanTagBytes = 4;

/// EtherTypes (IEEE 802 numbers).
inline constexpr std::uint16_t kTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kTypeIpv6 = 0x86dd;
inline constexpr std::uint16_t kTypeVlan = 0x8100;
inline constexpr std::uint16_t kTypeServiceVlan = 0x88a8;

/// Layers of a frame. Bits of FrameLayers::layers.
enum FrameLayer : std::uint16_t {
  kLayerEthernet = 1 << 0,
  kLayerVlan = 1 << 1,
  kLayerIpv4 = 1 << 2,
  kLayerIpv6 = 1 << 3,
  kLayerTcp = 1 << 4,
  kLayerUdp = 1 << 5,
  kLayerEsp = 1 << 6,
  kLayerVxlan = 1 << 7,
  kLayerGre = 1 << 8,
  kLayerMpls = 1 << 9,
};

/// Values of FrameFields::ip_flags (the kernel's `enum ib_ipv4_flags`).
inline constexpr std::uint8_t kIpv4DontFragment = 2;
inline constexpr std::uint8_t kIpv4MoreFragments = 4;

/// The fields of the layers, in network byte order; zeros for a missing layer. All members are
/// bytes: two values compare as memory does, and rules mask a value as a whole.
struct FrameFields {
  std::array<std::uint8_t, 6> destination_mac{};
  std::array<std::uint8_t, 6> source_mac{};
  std::array<std::uint8_t, 2> ether_type{};  // After the last VLAN tag.
  std::array<std::uint8_t, 2> vlan_tag{};    // The first tag: priority, CFI, id.
  std::array<std::uint8_t, 16> source_ip{};  // IPv4: in the first four bytes.
  std::array<std::uint8_t, 16> destination_ip{};
  std::array<std::uint8_t, 4> flow_label{};  // IPv6.
  std::uint8_t protocol = 0;                 // After the IPv6 extension headers.
  std::uint8_t traffic_class = 0;            // IPv4: TOS.
  std::uint8_t hop_limit = 0;                // IPv4: time to live.
  std::uint8_t ip_flags = 0;                 // IPv4.
  std::array<std::uint8_t, 2> source_port{};
  std::array<std::uint8_t, 2> destination_port{};
  std::array<std::uint8_t, 4> tunnel_id{};  // VXLAN: the 24 bits of the network identifier.
  std::array<std::uint8_t, 4> spi{};        // ESP.
  std::array<std::uint8_t, 4> sequence{};   // ESP.
  std::array<std::uint8_t, 2> gre_flags{};  // Flags and version.
  std::array<std::uint8_t, 2> gre_protocol{};
  std::array<std::uint8_t, 4> gre_key{};
  std::array<std::uint8_t, 4> mpls_label{};  // The whole entry at the top of the stack.
  std::array<std::uint8_t, 4> reserved{};    // Pads to a multiple of eight bytes.
  friend bool operator==(const FrameFields&, const FrameFields&) = default;
};
static_assert(sizeof(FrameFields) == 88 && alignof(FrameFields) == 1);

struct FrameLayers {
  std::uint16_t layers = 0;  // FrameLayer bits.
  std::uint32_t ip_at = 0;   // Offset in the frame; valid if the layer is there, like the others.
  std::uint32_t ip_end = 0;  // End of the IP packet: Ethernet may have padded the frame.
  bool is_whole = false;     // The frame has all bytes that the IP header counts.
  std::uint32_t transport_at = 0;
  FrameFields fields;

  bool has(std::uint16_t wanted) const { return (layers & wanted) == wanted; }
  bool has_any(std::uint16_t wanted) const { return (layers & wanted) != 0; }
};

struct Frame {
  FrameLayers outer;
  FrameLayers inner;  // Of a VXLAN or GRE tunnel.

  bool is_group() const { return (outer.fields.destination_mac[0] & 1) != 0; }
};

/// Parses a received frame without its frame check sequence. A layer with an incomplete header is
/// not there, nor is any after it. IP lengths beyond the frame's end are accepted, as cards do. Of
/// fragments only the first has a transport layer. Accepts any bytes; fewer than 14 have no layer.
Frame parse_frame(ByteSpan frame);

}  // namespace verbatim::wire
