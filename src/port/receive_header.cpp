#include "port/receive_header.h"

#include <cstdint>

#include "port/encapsulation_infiniband.h"
#include "port/port.h"
#include "wire/ib/opcode.h"
#include "wire/ib/packet.h"
#include "wire/net/flow_grh.h"
#include "wire/net/icrc.h"

namespace verbatim::port {

DatagramHeader::DatagramHeader(const wire::IpFlow& flow, bool immediate,
                               std::size_t payload_bytes) {
  const auto opcode =
      wire::opcode_of(wire::Service::ud, wire::Verb::send, wire::Position::only, immediate);
  const auto& info = wire::info(opcode);
  const std::size_t padded = (payload_bytes + 3) & ~std::size_t{3};
  const std::size_t bytes =
      wire::kUdpHeaderBytes + wire::Bth::kSize + info.header_bytes() + padded + wire::kIcrcBytes;
  wire::encode_receive_grh({.flow = flow, .udp_length = static_cast<std::uint16_t>(bytes)}, grh);
}

DatagramOrigin origin_of(const Path& to, const wire::IpFlow& flow, std::uint8_t lmc) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&to);
  if (infiniband == nullptr) return {.service_level = wire::packet_type(flow)};
  const bool is_group = is_multicast(infiniband->dlid);
  const LidRange lids{.lmc = lmc};
  return {.service_level = infiniband->service_level,
          .path_bits = is_group ? std::uint8_t{0} : lids.path_bits(infiniband->dlid),
          .source_lid = raw(infiniband->slid),
          .has_grh = infiniband->grh.has_value(),
          .port = infiniband->port};
}

}  // namespace verbatim::port
