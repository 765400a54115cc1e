#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "offload/switch/frames/frames_test_util.h"
#include "offload/switch/key.h"

/// Frames of fields that a sim::Random draws, in tunnels or not, and what rules see of them: told
/// by the same fields, not by the switch's parser.
namespace verbatim::offload {

using wire::TunnelKind;

/// A frame, in the words of who made it.
struct Packet {
  FrameShape shape;
  TunnelKind tunnel = TunnelKind::kNone;
  bool has_ethernet = true;  // In the tunnel; GRE may carry an IP packet.
  bool is_whole = true;      // The frame in the tunnel is not cut short.
  std::uint8_t network = 0;
  std::vector<std::byte> options;  // Geneve's.
  FrameShape inner;
};

FrameShape some_shape(auto& random) {
  FrameShape shape;
  shape.is_ipv6 = random.chance(0.3);
  if (random.chance(0.4)) shape.vlan = static_cast<int>(random.below(3));
  shape.protocol = random.chance(0.5) ? 17 : random.chance(0.7) ? 6 : 132;
  shape.last_of_source = static_cast<std::uint8_t>(random.below(4));
  shape.last_of_destination = static_cast<std::uint8_t>(random.below(4));
  shape.hop_limit = random.chance(0.5) ? 64 : 1;
  shape.source_port = static_cast<std::uint16_t>(random.below(6));
  shape.destination_port = static_cast<std::uint16_t>(random.below(6));
  constexpr std::uint16_t kFragments[] = {0x2000, 0x2010, 0x0010};
  if (!shape.is_ipv6 && random.chance(0.15)) shape.fragment = kFragments[random.below(3)];
  if (shape.is_ipv6 && random.chance(0.2)) shape.extension = 60;
  shape.payload = random.below(20);
  return shape;
}

std::vector<std::byte> some_options(auto& random) {
  std::vector<std::byte> options;
  for (std::uint64_t i = random.below(4); i > 0; --i) {
    const auto words = static_cast<unsigned>(random.below(3));
    append(options, {1, 2, unsigned(random.below(2)), words});
    for (unsigned n = 0; n < words; ++n) append(options, {0, 0, 7, unsigned(random.below(3))});
  }
  return options;
}

Packet some_packet(auto& random) {
  Packet packet{.shape = some_shape(random)};
  if (random.chance(0.5)) return packet;
  constexpr TunnelKind kKinds[] = {TunnelKind::kVxlan, TunnelKind::kGeneve, TunnelKind::kGre};
  packet.tunnel = kKinds[random.below(3)];
  packet.shape.fragment = 0;
  packet.shape.protocol = packet.tunnel == TunnelKind::kGre ? 47 : 17;
  packet.shape.destination_port = packet.tunnel == TunnelKind::kVxlan ? 4789 : 6081;
  packet.has_ethernet = packet.tunnel != TunnelKind::kGre || random.chance(0.5);
  packet.is_whole = random.chance(0.95);
  packet.network = static_cast<std::uint8_t>(random.below(3));
  if (packet.tunnel == TunnelKind::kGeneve) packet.options = some_options(random);
  packet.inner = some_shape(random);
  if (!packet.has_ethernet) packet.inner.vlan = -1;
  return packet;
}

inline unsigned inner_type(const Packet& packet) {
  return packet.has_ethernet ? 0x6558 : packet.inner.is_ipv6 ? 0x86dd : 0x0800;
}

inline std::vector<std::byte> tunnel_header(const Packet& packet) {
  const unsigned type = inner_type(packet);
  std::vector<std::byte> header;
  switch (packet.tunnel) {
    case TunnelKind::kVxlan:
      append(header, {8, 0, 0, 0, 0, 0, packet.network, 0});
      break;
    case TunnelKind::kGeneve:
      append(header, {unsigned(packet.options.size() / 4), 0, type >> 8, type & 255});
      append(header, {0, 0, packet.network, 0});
      header.insert(header.end(), packet.options.begin(), packet.options.end());
      break;
    default:  // GRE with a key.
      append(header, {0x20, 0, type >> 8, type & 255, 0, 0, 0, packet.network});
  }
  return header;
}

inline std::vector<std::byte> bytes_of(const Packet& packet) {
  if (packet.tunnel == TunnelKind::kNone) return make_frame(packet.shape);
  auto carried = tunnel_header(packet);
  auto inner = make_frame(packet.inner);
  if (!packet.is_whole) inner.pop_back();
  const std::ptrdiff_t skipped = packet.has_ethernet ? 0 : 14;
  carried.insert(carried.end(), inner.begin() + skipped, inner.end());
  FrameShape outer = packet.shape;
  const std::size_t written = packet.tunnel == TunnelKind::kGre ? 8 : 0;  // In the place of ports.
  outer.payload = carried.size() - written;
  auto frame = make_frame(outer);
  std::ranges::copy(carried, frame.end() - static_cast<std::ptrdiff_t>(carried.size()));
  return frame;
}

inline Key fields_of(const FrameShape& shape, bool has_ethernet = true) {
  Key key;
  if (has_ethernet) {
    key.destination_mac = {2, 0, 0, 0, 0, shape.last_of_destination};
    key.source_mac = {2, 0, 0, 0, 0, shape.last_of_source};
  }
  if (shape.vlan >= 0) {
    key.vlan_tag = {kTagPresent, static_cast<std::uint8_t>(shape.vlan)};
    key.vlan_protocol = {0x81, 0};
  }
  using Pair = std::array<std::uint8_t, 2>;
  key.ether_type = shape.is_ipv6 ? Pair{0x86, 0xdd} : Pair{8, 0};
  if (shape.is_ipv6) {
    key.source_ip[0] = key.destination_ip[0] = 0xfd;
    key.source_ip[15] = shape.last_of_source;
    key.destination_ip[15] = shape.last_of_destination;
  } else {
    key.source_ip = {10, 9, 0, shape.last_of_source};
    key.destination_ip = {10, 9, 0, shape.last_of_destination};
  }
  key.protocol = shape.protocol;
  key.hop_limit = shape.hop_limit;
  const bool is_later = (shape.fragment & 0x1fff) != 0;
  if (shape.fragment != 0) key.fragment = is_later ? kLaterFragment : kFirstFragment;
  if (is_later || shape.protocol == 47) return key;
  if (shape.protocol == 6) key.tcp_flags = {0, 0x19};
  const auto pair = [](unsigned port) {
    return Pair{static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port)};
  };
  key.source_port = pair(shape.source_port);
  key.destination_port = pair(shape.destination_port);
  return key;
}

inline TunnelKey tunnel_fields_of(const Packet& packet) {
  const unsigned type = inner_type(packet);
  return {.kind = packet.tunnel,
          .protocol = {static_cast<std::uint8_t>(type >> 8), static_cast<std::uint8_t>(type)},
          .id = {0, 0, 0, packet.network},
          .inner = fields_of(packet.inner, packet.has_ethernet)};
}

}  // namespace verbatim::offload
