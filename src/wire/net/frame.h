#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

/// Ethernet frames as flow steering, checksum offload and receive-side scaling see them: which
/// layers there are, where they begin, and the fields that rules match.
namespace verbatim::wire {

inline constexpr std::size_t kEthernetHeaderBytes = 14;
inline constexpr std::size_t kVlanTagBytes = 4;

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

/// The fields of the layers, each in network byte order; zeros where a layer is not there. Bytes
/// only: two of them compare as their bytes do, and rules mask them as a whole.
struct FrameFields {
  std::array<std::uint8_t, 6> destination_mac{};
  std::array<std::uint8_t, 6> source_mac{};
  std::array<std::uint8_t, 2> ether_type{};  // Behind the last VLAN tag.
  std::array<std::uint8_t, 2> vlan_tag{};    // The first one's: priority, CFI, id.
  std::array<std::uint8_t, 16> source_ip{};  // IPv4: the first four bytes.
  std::array<std::uint8_t, 16> destination_ip{};
  std::array<std::uint8_t, 4> flow_label{};  // IPv6.
  std::uint8_t protocol = 0;                 // Behind the IPv6 extension headers.
  std::uint8_t traffic_class = 0;            // IPv4: TOS.
  std::uint8_t hop_limit = 0;                // IPv4: time to live.
  std::uint8_t ip_flags = 0;                 // IPv4.
  std::array<std::uint8_t, 2> source_port{};
  std::array<std::uint8_t, 2> destination_port{};
  std::array<std::uint8_t, 4> tunnel_id{};  // VXLAN: the 24 bits of the network identifier.
  std::array<std::uint8_t, 4> spi{};        // ESP.
  std::array<std::uint8_t, 4> sequence{};   // ESP.
  std::array<std::uint8_t, 2> gre_flags{};  // And version.
  std::array<std::uint8_t, 2> gre_protocol{};
  std::array<std::uint8_t, 4> gre_key{};
  std::array<std::uint8_t, 4> mpls_label{};  // The whole entry at the top of the stack.
  std::array<std::uint8_t, 4> reserved{};    // To a multiple of eight bytes.
  friend bool operator==(const FrameFields&, const FrameFields&) = default;
};
static_assert(sizeof(FrameFields) == 88 && alignof(FrameFields) == 1);

struct FrameLayers {
  std::uint16_t layers = 0;  // FrameLayer bits.
  std::uint32_t ip_at = 0;   // Offsets in the frame, where the layer is there.
  std::uint32_t ip_end = 0;  // Where the IP packet ends: Ethernet may have padded the frame.
  bool is_whole = false;     // The frame has all that the IP header speaks of.
  std::uint32_t transport_at = 0;
  FrameFields fields;

  bool has(std::uint16_t wanted) const { return (layers & wanted) == wanted; }
  bool has_any(std::uint16_t wanted) const { return (layers & wanted) != 0; }
};

struct Frame {
  FrameLayers outer;
  FrameLayers inner;  // Of VXLAN and GRE tunnels.

  bool is_group() const { return (outer.fields.destination_mac[0] & 1) != 0; }
};

/// Looks through a frame as it comes from the wire, without the frame check sequence. A layer that
/// whose header is cut short, and what is behind it, is not there; lengths that IP headers claim
/// beyond the frame's end are forgiven, as cards do. A fragment but the first has no transport
/// layer. Any bytes will do: no layer at all is found in fewer than 14.
Frame parse_frame(ByteSpan frame);

}  // namespace verbatim::wire
