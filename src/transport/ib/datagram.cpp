#include "transport/ib/datagram.h"

namespace verbatim::transport {
namespace {

using wire::Position;
using wire::Service;
using wire::Verb;

constexpr wire::Opcode kSend = wire::opcode_of(Service::ud, Verb::send, Position::only);
constexpr wire::Opcode kSendImmediate =
    wire::opcode_of(Service::ud, Verb::send, Position::only, true);
constexpr Qpn kSubnetManagementQpn{0};

}  // namespace

wire::Opcode datagram_opcode(bool immediate) { return immediate ? kSendImmediate : kSend; }

std::expected<OutgoingPacket, Status> make_datagram(const DatagramConfig& config,
                                                    const DatagramDestination& destination,
                                                    const SendRequest& request, Slot slot,
                                                    Psn psn) {
  const bool immediate = request.operation == Operation::send_with_immediate;
  if (!immediate && request.operation != Operation::send) {
    return std::unexpected(Status::local_qp_operation_error);
  }
  // IBA 9.8.3: a datagram is one packet.
  if (request.length > bytes_of(config.mtu)) return std::unexpected(Status::local_length_error);

  OutgoingPacket out;
  wire::Bth& bth = out.headers.bth;
  bth.opcode = datagram_opcode(immediate);
  bth.solicited_event = request.solicited;
  bth.pkey = config.pkey;
  bth.dest_qp = destination.qpn;
  bth.psn = psn;
  bth.pad_count = static_cast<std::uint8_t>((4 - request.length % 4) % 4);
  // IBA 10.2.5: a request with a controlled Q_Key sends the queue pair's own Q_Key.
  const bool controlled = (raw(destination.qkey) & kControlledQKey) != 0;
  out.headers.deth = {.qkey = controlled ? config.qkey : destination.qkey, .source_qp = config.qpn};
  if (immediate) out.headers.immediate = request.immediate;
  if (request.length > 0) {
    out.payload.from = PayloadSource::From::request;
    out.payload.length = static_cast<std::uint32_t>(request.length);
    out.payload.slot = slot;
  }
  return out;
}

const char* describe(DatagramDrop reason) {
  switch (reason) {
    case DatagramDrop::wrong_opcode:
      return "not a SEND of the datagram service";
    case DatagramDrop::wrong_pkey:
      return "the P_Keys do not match";
    case DatagramDrop::wrong_qkey:
      return "the Q_Keys differ";
    case DatagramDrop::too_long:
      return "longer than the MTU";
  }
  return "unknown";
}

std::expected<void, DatagramDrop> check_datagram(const DatagramConfig& config,
                                                 const wire::Packet& packet) {
  const wire::Headers& headers = packet.headers;
  const wire::OpcodeInfo& info = wire::info(headers.bth.opcode);
  if (!info.known || info.service != Service::ud) {
    return std::unexpected(DatagramDrop::wrong_opcode);
  }
  if (!wire::pkeys_match(headers.bth.pkey, config.pkey))
    return std::unexpected(DatagramDrop::wrong_pkey);
  // QP0 has no Q_Key: subnet management packets are checked by their M_Key (IBA 10.2.5, 14.2.4).
  if (config.qpn != kSubnetManagementQpn && headers.deth.qkey != config.qkey) {
    return std::unexpected(DatagramDrop::wrong_qkey);
  }
  if (packet.payload.size() > bytes_of(config.mtu)) return std::unexpected(DatagramDrop::too_long);
  return {};
}

}  // namespace verbatim::transport
