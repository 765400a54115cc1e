#include "wire/net/frame.h"

#include <algorithm>
#include <optional>

namespace verbatim::wire {
namespace {

constexpr std::uint16_t kTypeMpls = 0x8847;
constexpr std::uint16_t kTypeTransparentEthernet = 0x6558;  // RFC 1701: Ethernet in GRE.

constexpr std::uint8_t kProtocolTcp = 6;
constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint8_t kProtocolGre = 47;
constexpr std::uint8_t kProtocolEsp = 50;

constexpr std::uint16_t kVxlanPort = 4789;  // RFC 7348.
constexpr std::uint8_t kVxlanHasIdentifier = 0x08;
constexpr int kVlanTagsMax = 2;
constexpr int kExtensionHeadersMax = 8;

/// Reads a frame from front to back. Each step moves past its layer; the first step that fails ends
/// the reading.
class Reader {
 public:
  explicit Reader(ByteSpan frame) : frame_(frame) {}

  void ethernet(FrameLayers& out);
  /// Returns the Ethertype of a tunnel's content. Only one level of tunnels is parsed.
  std::uint16_t tunnelled() const { return tunnelled_; }
  void network(std::uint16_t type, FrameLayers& out);

 private:
  bool there(std::size_t bytes) const { return frame_.size() - at_ >= bytes; }
  std::uint8_t byte(std::size_t offset) const {
    return std::to_integer<std::uint8_t>(frame_[at_ + offset]);
  }
  std::uint16_t word(std::size_t offset) const {
    return load_be<std::uint16_t>(&frame_[at_ + offset]);
  }
  template <std::size_t size>
  void copy(std::array<std::uint8_t, size>& to, std::size_t offset, std::size_t bytes = size) {
    for (std::size_t i = 0; i < bytes; ++i) to[i] = byte(offset + i);
  }

  void set_extent(std::size_t total, FrameLayers& out) const;
  void ipv4(FrameLayers& out);
  void ipv6(FrameLayers& out);
  /// Skips extension headers. Returns false if no transport layer follows.
  bool ipv6_extensions(FrameLayers& out);
  void transport(FrameLayers& out);
  void udp(FrameLayers& out);
  void gre(FrameLayers& out);

  ByteSpan frame_;
  std::size_t at_ = 0;
  std::uint16_t tunnelled_ = 0;  // Ethertype of the tunnel's content; 0: no tunnel.
};

void Reader::ethernet(FrameLayers& out) {
  if (!there(kEthernetHeaderBytes)) return;
  out.layers |= kLayerEthernet;
  copy(out.fields.destination_mac, 0);
  copy(out.fields.source_mac, 6);
  std::uint16_t type = word(12);
  at_ += kEthernetHeaderBytes;
  for (int tags = 0; tags < kVlanTagsMax && (type == kTypeVlan || type == kTypeServiceVlan) &&
                     there(kVlanTagBytes);
       ++tags) {
    if (!out.has(kLayerVlan)) copy(out.fields.vlan_tag, 0);
    out.layers |= kLayerVlan;
    type = word(2);
    at_ += kVlanTagBytes;
  }
  out.fields.ether_type = {static_cast<std::uint8_t>(type >> 8), static_cast<std::uint8_t>(type)};
  network(type, out);
}

void Reader::network(std::uint16_t type, FrameLayers& out) {
  if (type == kTypeIpv4) return ipv4(out);
  if (type == kTypeIpv6) return ipv6(out);
  if (type == kTypeMpls && there(4)) {
    out.layers |= kLayerMpls;
    copy(out.fields.mpls_label, 0);
  }
}

void Reader::set_extent(std::size_t total, FrameLayers& out) const {
  out.is_whole = there(total);
  out.ip_at = static_cast<std::uint32_t>(at_);
  out.ip_end = static_cast<std::uint32_t>(out.is_whole ? at_ + total : frame_.size());
}

void Reader::ipv4(FrameLayers& out) {
  constexpr std::size_t kMinimum = 20;
  if (!there(kMinimum) || byte(0) >> 4 != 4) return;
  const std::size_t header_bytes = (byte(0) & 0xfu) * 4u;
  const std::size_t total = word(2);
  if (header_bytes < kMinimum || total < header_bytes || !there(header_bytes)) return;
  out.layers |= kLayerIpv4;
  set_extent(total, out);
  out.fields.traffic_class = byte(1);
  const std::uint16_t fragment = word(6);
  out.fields.ip_flags =
      static_cast<std::uint8_t>(((fragment & 0x4000) != 0 ? kIpv4DontFragment : 0) |
                                ((fragment & 0x2000) != 0 ? kIpv4MoreFragments : 0));
  out.fields.hop_limit = byte(8);
  out.fields.protocol = byte(9);
  copy(out.fields.source_ip, 12, 4);
  copy(out.fields.destination_ip, 16, 4);
  if ((fragment & 0x1fff) != 0) return;
  at_ += header_bytes;
  transport(out);
}

void Reader::ipv6(FrameLayers& out) {
  constexpr std::size_t kHeaderBytes = 40;
  if (!there(kHeaderBytes) || byte(0) >> 4 != 6) return;
  out.layers |= kLayerIpv6;
  set_extent(kHeaderBytes + word(4), out);
  out.fields.traffic_class = static_cast<std::uint8_t>(word(0) >> 4);
  out.fields.flow_label = {0, static_cast<std::uint8_t>(byte(1) & 0xf), byte(2), byte(3)};
  out.fields.protocol = byte(6);
  out.fields.hop_limit = byte(7);
  copy(out.fields.source_ip, 8);
  copy(out.fields.destination_ip, 24);
  at_ += kHeaderBytes;
  if (ipv6_extensions(out)) transport(out);
}

bool Reader::ipv6_extensions(FrameLayers& out) {
  constexpr std::uint8_t kHopByHop = 0;
  constexpr std::uint8_t kRouting = 43;
  constexpr std::uint8_t kFragment = 44;
  constexpr std::uint8_t kDestinationOptions = 60;
  std::uint8_t& protocol = out.fields.protocol;
  for (int i = 0; i < kExtensionHeadersMax; ++i) {
    if (protocol != kHopByHop && protocol != kRouting && protocol != kFragment &&
        protocol != kDestinationOptions) {
      return true;
    }
    if (!there(8)) return false;
    const bool later_fragment = protocol == kFragment && (word(2) & 0xfff8) != 0;
    const std::size_t bytes = protocol == kFragment ? 8 : (byte(1) + 1u) * 8u;
    if (!there(bytes)) return false;
    protocol = byte(0);
    at_ += bytes;
    if (later_fragment) return false;
  }
  return false;
}

void Reader::transport(FrameLayers& out) {
  frame_ = frame_.first(out.ip_end);  // The rest is padding.
  if (at_ > frame_.size()) return;
  out.transport_at = static_cast<std::uint32_t>(at_);
  switch (out.fields.protocol) {
    case kProtocolTcp:
      if (!there(20)) return;
      out.layers |= kLayerTcp;
      copy(out.fields.source_port, 0);
      copy(out.fields.destination_port, 2);
      return;
    case kProtocolUdp:
      return udp(out);
    case kProtocolEsp:
      if (!there(8)) return;
      out.layers |= kLayerEsp;
      copy(out.fields.spi, 0);
      copy(out.fields.sequence, 4);
      return;
    case kProtocolGre:
      return gre(out);
    default:
      return;
  }
}

void Reader::udp(FrameLayers& out) {
  constexpr std::size_t kHeaderBytes = 8;
  if (!there(kHeaderBytes)) return;
  out.layers |= kLayerUdp;
  copy(out.fields.source_port, 0);
  copy(out.fields.destination_port, 2);
  const bool is_vxlan = word(2) == kVxlanPort;
  at_ += kHeaderBytes;
  if (!is_vxlan || !there(8) || (byte(0) & kVxlanHasIdentifier) == 0) return;
  out.layers |= kLayerVxlan;
  out.fields.tunnel_id = {0, byte(4), byte(5), byte(6)};
  at_ += 8;
  tunnelled_ = kTypeTransparentEthernet;
}

/// RFC 2784 and 2890.
void Reader::gre(FrameLayers& out) {
  if (!there(4) || (byte(1) & 7) != 0) return;
  const bool has_checksum = (byte(0) & 0x80) != 0;
  const bool has_key = (byte(0) & 0x20) != 0;
  const bool has_sequence = (byte(0) & 0x10) != 0;
  const std::size_t bytes =
      4u + (has_checksum ? 4u : 0u) + (has_key ? 4u : 0u) + (has_sequence ? 4u : 0u);
  if (!there(bytes)) return;
  out.layers |= kLayerGre;
  copy(out.fields.gre_flags, 0);
  copy(out.fields.gre_protocol, 2);
  if (has_key) copy(out.fields.gre_key, has_checksum ? 8 : 4);
  tunnelled_ = word(2);
  at_ += bytes;
}

}  // namespace

Frame parse_frame(ByteSpan bytes) {
  Frame frame;
  Reader reader(bytes);
  reader.ethernet(frame.outer);
  if (const std::uint16_t type = reader.tunnelled(); type == kTypeTransparentEthernet) {
    reader.ethernet(frame.inner);
  } else if (type != 0) {
    reader.network(type, frame.inner);
  }
  return frame;
}

}  // namespace verbatim::wire
