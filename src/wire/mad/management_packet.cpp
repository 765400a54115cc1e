#include "wire/mad/management_packet.h"

#include <algorithm>

#include "wire/net/flow_grh.h"

namespace verbatim::wire {
namespace {

constexpr Opcode kSendOnly = opcode_of(Service::ud, Verb::send, Position::only);

}  // namespace

ManagementPacket encode_management_packet(const IpFlow& flow, Psn psn, MadSpan mad) {
  ManagementPacket whole;
  whole.has_grh_ = flow.has_grh();
  encode_packet_grh(flow, kManagementPacketBytes, std::span(whole.bytes_).first<Grh::kSize>());
  const auto packet = std::span(whole.bytes_).last<kManagementPacketBytes>();
  const Headers headers{.bth = {.opcode = kSendOnly, .dest_qp = kManagementQpn, .psn = psn},
                        .deth = {.qkey = kManagementQKey, .source_qp = kManagementQpn}};
  const std::size_t header_bytes = encode_headers(headers, packet);
  std::ranges::copy(mad, packet.begin() + header_bytes);
  const ByteSpan covered = packet.first(header_bytes + kMadBytes);
  Icrc icrc =
      IcrcSeed(flow).start(static_cast<std::uint16_t>(kUdpHeaderBytes + kManagementPacketBytes), 0,
                           covered.first(header_bytes));
  icrc.update(mad);
  store_icrc(icrc.value(), packet.last<kIcrcBytes>());
  return whole;
}

std::optional<ManagementDatagram> management_datagram_of(const Packet& packet) {
  const Headers& headers = packet.headers;
  if (headers.bth.opcode != kSendOnly || headers.bth.dest_qp != kManagementQpn ||
      headers.deth.qkey != kManagementQKey || packet.payload.size() != kMadBytes) {
    return std::nullopt;
  }
  return ManagementDatagram{.mad = packet.payload.first<kMadBytes>(),
                            .source_qpn = headers.deth.source_qp};
}

}  // namespace verbatim::wire
