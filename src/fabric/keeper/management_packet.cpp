#include "fabric/keeper/management_packet.h"

#include <algorithm>
#include <span>

#include "fabric/data/image/records.h"
#include "wire/ib/packet.h"

namespace verbatim::fabric {

ManagementPacket packet_of(const ManagementDatagram& datagram) {
  const InfinibandPath& path = datagram.path;
  ManagementPacket packet;
  if (datagram.destination_qp == Qpn(0)) packet.lane = kManagementLane;
  packet.size = wire::Lrh::kSize + (path.grh ? wire::Grh::kSize : 0) + wire::kManagementPacketBytes;
  std::span<std::byte> out = std::span(packet.storage).first(packet.size);
  encode(wire::Lrh{.virtual_lane = packet.lane,
                   .service_level = path.service_level,
                   .next = path.grh ? wire::Lrh::Next::grh : wire::Lrh::Next::bth,
                   .dlid = path.dlid,
                   .length_words = static_cast<std::uint16_t>(packet.size / 4),
                   .slid = path.slid},
         out.first<wire::Lrh::kSize>());
  out = out.subspan(wire::Lrh::kSize);
  if (path.grh) {
    encode(wire::Grh{.traffic_class = path.grh->traffic_class,
                     .flow_label = path.grh->flow_label,
                     .payload_length = wire::kManagementPacketBytes,
                     .hop_limit = path.grh->hop_limit,
                     .source = path.grh->source,
                     .destination = path.grh->destination},
           out.first<wire::Grh::kSize>());
    out = out.subspan(wire::Grh::kSize);
  }
  wire::encode_headers(
      {.bth = {.opcode = wire::opcode_of(wire::Service::ud, wire::Verb::send, wire::Position::only),
               .pkey = PKey(datagram.pkey),
               .dest_qp = datagram.destination_qp},
       .deth = wire::Deth{.qkey = QKey(datagram.qkey), .source_qp = datagram.source_qp}},
      out);
  std::ranges::copy(datagram.mad, out.subspan(wire::Bth::kSize + wire::Deth::kSize).begin());
  return packet;
}

std::optional<ManagementDatagram> datagram_of(ByteSpan packet) {
  const auto lrh = wire::decode_lrh(packet);
  if (!lrh || lrh->length_words * 4u != packet.size()) return std::nullopt;
  ManagementDatagram datagram{
      .path = {.dlid = lrh->dlid, .slid = lrh->slid, .service_level = lrh->service_level}};
  ByteSpan rest = packet.subspan(wire::Lrh::kSize);
  if (lrh->next == wire::Lrh::Next::grh) {
    const auto grh = wire::decode_grh(rest);
    if (!grh) return std::nullopt;
    datagram.path.grh = GlobalRoute{.source = grh->source,
                                    .destination = grh->destination,
                                    .flow_label = grh->flow_label,
                                    .traffic_class = grh->traffic_class,
                                    .hop_limit = grh->hop_limit};
    rest = rest.subspan(wire::Grh::kSize);
  } else if (lrh->next != wire::Lrh::Next::bth) {
    return std::nullopt;
  }
  if (rest.size() != wire::kManagementPacketBytes) return std::nullopt;
  const auto decoded = wire::decode_packet(rest.first(rest.size() - wire::kIcrcBytes));
  constexpr auto kSend = wire::opcode_of(wire::Service::ud, wire::Verb::send, wire::Position::only);
  if (!decoded || decoded->headers.bth.opcode != kSend ||
      decoded->payload.size() != datagram.mad.size()) {
    return std::nullopt;
  }
  datagram.source_qp = decoded->headers.deth.source_qp;
  datagram.destination_qp = decoded->headers.bth.dest_qp;
  datagram.qkey = raw(decoded->headers.deth.qkey);
  datagram.pkey = raw(decoded->headers.bth.pkey);
  std::ranges::copy(decoded->payload, datagram.mad.begin());
  return datagram;
}

}  // namespace verbatim::fabric
