#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "fabric/data/end.h"
#include "wire/net/grh.h"
#include "wire/net/lrh.h"

/// Packets for tests: each says who it is.
namespace verbatim::fabric {

/// What each packet of a test says about itself.
struct Mark {
  std::uint32_t flow = 0;
  std::uint32_t number = 0;
};

inline bool post_mark(End& end, Lid dlid, std::uint8_t service_level, Mark mark,
                      std::uint32_t bytes, Qpn destination = Qpn(1u << kQpnRangeBits)) {
  static constexpr std::array<std::byte, kPacketBytesMax> kFilling{};
  const auto lane = static_cast<std::uint8_t>(end.lane_of(service_level));
  if (!end.reserve(lane, bytes)) return false;
  const std::array<ByteSpan, 2> pieces{std::as_bytes(std::span(&mark, 1)),
                                       ByteSpan(kFilling).first(bytes - sizeof mark)};
  end.post({.pieces = pieces,
            .dlid = dlid,
            .service_level = service_level,
            .lane = lane,
            .destination = destination});
  return true;
}

inline Mark mark_of(const IncomingPacket& packet) {
  Mark mark;
  std::memcpy(&mark, packet.bytes.data(), sizeof mark);
  return mark;
}

inline Gid gid_of(const Image& image, NodeIndex host) {
  const NodeRecord& record = image.node(host);
  Gid gid;
  const std::array<std::uint64_t, 2> halves{
      to_big_endian(image.port(record, kCablePort).gid_prefix.load()), to_big_endian(record.guid)};
  std::memcpy(gid.bytes.data(), halves.data(), sizeof halves);
  return gid;
}

struct RoutedOptions {
  std::uint32_t bytes = 128;
  std::uint8_t service_level = 0;
  std::uint8_t hop_limit = 64;
  Qpn destination = Qpn(1u << kQpnRangeBits);
};
inline constexpr std::size_t kRoutedBytes = wire::Lrh::kSize + wire::Grh::kSize;

/// A packet with LRH and GRH, and a mark behind them.
inline bool post_routed(End& end, Lid dlid, const Gid& source, const Gid& destination, Mark mark,
                        RoutedOptions options) {
  std::vector<std::byte> packet(options.bytes);
  encode(wire::Lrh{.service_level = options.service_level,
                   .next = wire::Lrh::Next::grh,
                   .dlid = dlid,
                   .length_words = static_cast<std::uint16_t>(options.bytes / 4),
                   .slid = Lid{0xbfff}},
         std::span(packet).first<wire::Lrh::kSize>());
  encode(wire::Grh{.payload_length = static_cast<std::uint16_t>(options.bytes - kRoutedBytes),
                   .hop_limit = options.hop_limit,
                   .source = source,
                   .destination = destination},
         std::span(packet).subspan<wire::Lrh::kSize, wire::Grh::kSize>());
  std::memcpy(&packet[kRoutedBytes], &mark, sizeof mark);
  const auto lane = static_cast<std::uint8_t>(end.lane_of(options.service_level));
  if (!end.reserve(lane, options.bytes)) return false;
  end.post({.pieces = std::array{ByteSpan(packet)},
            .dlid = dlid,
            .service_level = options.service_level,
            .lane = lane,
            .destination = options.destination});
  return true;
}

/// What has come through a router. Nothing if the headers are not those of a routed packet.
struct RoutedMark {
  Mark mark;
  wire::Lrh lrh;
  wire::Grh grh;
};
inline std::optional<RoutedMark> routed_mark_of(const IncomingPacket& packet) {
  const auto lrh = wire::decode_lrh(packet.bytes);
  const auto grh = wire::decode_grh(packet.bytes.subspan(wire::Lrh::kSize));
  if (!lrh || !grh || packet.bytes.size() < kRoutedBytes + sizeof(Mark)) return std::nullopt;
  RoutedMark found{.mark = {}, .lrh = *lrh, .grh = *grh};
  std::memcpy(&found.mark, &packet.bytes[kRoutedBytes], sizeof found.mark);
  return found;
}

}  // namespace verbatim::fabric
