#include "port/encapsulation_infiniband.h"

#include <optional>

#include "wire/ib/bth.h"
#include "wire/net/ip.h"

namespace verbatim::port {
namespace {

using wire::WireError;

/// `length_words` is the packet's, and differs from packet to packet.
wire::Lrh lrh_of(const InfinibandPath& path, std::uint8_t lane) {
  return {.virtual_lane = lane,
          .service_level = path.service_level,
          .next = path.grh ? wire::Lrh::Next::grh : wire::Lrh::Next::bth,
          .dlid = path.dlid,
          .slid = path.slid};
}

/// Takes the GRH off the packet. Every packet of a multicast group has one.
std::expected<std::optional<GlobalRoute>, WireError> take_grh(const wire::Lrh& header,
                                                              MutableByteSpan& packet) {
  if (header.next == wire::Lrh::Next::bth) return std::nullopt;
  if (header.next != wire::Lrh::Next::grh) return std::unexpected(WireError::ip_protocol);
  const auto found = wire::decode_grh_packet(packet);
  if (!found) return std::unexpected(found.error());
  if (found->packet.size() + wire::Grh::kSize != packet.size()) {
    return std::unexpected(WireError::ip_length);
  }
  packet = found->packet;
  return GlobalRoute{.source = found->grh.source,
                     .destination = found->grh.destination,
                     .flow_label = found->grh.flow_label,
                     .traffic_class = found->grh.traffic_class,
                     .hop_limit = found->grh.hop_limit};
}

}  // namespace

wire::IcrcSeed icrc_seed(const InfinibandPath& path) {
  if (!path.grh) return wire::IcrcSeed(lrh_of(path, 0));
  // Routers change the LRH, so the ICRC takes it as ones, as it does in RoCE v1.
  return wire::IcrcSeed(wire::IpFlow{.source = path.grh->source,
                                     .destination = path.grh->destination,
                                     .source_port = 0,
                                     .destination_port = 0});
}

void encapsulate(const InfinibandPath& path, std::uint8_t lane, std::size_t packet_bytes,
                 MutableByteSpan out) {
  wire::Lrh header = lrh_of(path, lane);
  header.length_words = static_cast<std::uint16_t>((encapsulation_bytes(path) + packet_bytes) / 4);
  encode(header, out.first<wire::Lrh::kSize>());
  if (!path.grh) return;
  encode(wire::Grh{.traffic_class = path.grh->traffic_class,
                   .flow_label = path.grh->flow_label,
                   .payload_length = static_cast<std::uint16_t>(packet_bytes),
                   .hop_limit = path.grh->hop_limit,
                   .source = path.grh->source,
                   .destination = path.grh->destination},
         out.subspan<wire::Lrh::kSize, wire::Grh::kSize>());
}

std::expected<InfinibandPacket, WireError> decapsulate(MutableByteSpan bytes) {
  const auto header = wire::decode_lrh(bytes);
  if (!header) return std::unexpected(header.error());
  const std::size_t length = std::size_t{header->length_words} * 4;
  if (length > bytes.size() || length < wire::Lrh::kSize) {
    return std::unexpected(WireError::ip_length);
  }
  MutableByteSpan packet = bytes.first(length).subspan(wire::Lrh::kSize);
  const auto grh = take_grh(*header, packet);
  if (!grh) return std::unexpected(grh.error());
  if (packet.size() < wire::Bth::kSize + wire::kIcrcBytes) {
    return std::unexpected(WireError::too_short);
  }
  const bool multicast = is_multicast(header->dlid);
  if (multicast && !*grh) return std::unexpected(WireError::too_short);
  InfinibandPacket found{.from = {.dlid = header->slid,
                                  .slid = header->dlid,
                                  .service_level = header->service_level,
                                  .grh = *grh},
                         .to = {.dlid = header->dlid,
                                .slid = header->slid,
                                .service_level = header->service_level,
                                .grh = *grh},
                         .group = multicast ? (*grh)->destination : Gid{},
                         .packet = packet};
  if (found.from.grh) std::swap(found.from.grh->source, found.from.grh->destination);
  return found;
}

}  // namespace verbatim::port
