#pragma once

#include <cstdint>
#include <expected>

#include "base/types.h"
#include "transport/ib/outgoing_packet.h"

/// Unreliable datagrams (IBA volume 1, section 9.8.3): each message is one packet, and the only
/// state is a counter, so functions are enough.
namespace verbatim::transport {

/// Bytes before the payload in a UD receive buffer: a GRH, or 20 unused bytes and an IPv4 header
/// (IBA 11.4.2.1, annex A17).
inline constexpr std::uint32_t kGrhBytes = 40;

/// This bit marks a controlled Q_Key: a send request with it uses the queue pair's own Q_Key, and
/// only privileged programs may set one (IBA 10.2.5).
inline constexpr std::uint32_t kControlledQKey = 0x8000'0000;

struct DatagramConfig {
  Qpn qpn;
  PKey pkey = kDefaultPKey;
  QKey qkey{};
  Mtu mtu = Mtu::k1024;  // Of the port.
};

/// The destination of a datagram.
struct DatagramDestination {
  Qpn qpn;  // kMulticastQpn for a multicast group.
  QKey qkey{};
};

wire::Opcode datagram_opcode(bool immediate);

/// Builds the packet of a send request. local_length_error if `length` exceeds the MTU;
/// local_qp_operation_error unless the operation is send or send_with_immediate.
std::expected<OutgoingPacket, Status> make_datagram(const DatagramConfig& config,
                                                    const DatagramDestination& destination,
                                                    const SendRequest& request, Slot slot, Psn psn);

/// Reasons to drop a datagram. UD reports no error to the sender.
enum class DatagramDrop : std::uint8_t {
  wrong_opcode,  // No UD SEND.
  wrong_pkey,
  wrong_qkey,
  too_long,  // More payload than the MTU.
};
const char* describe(DatagramDrop reason);

/// Checks whether the queue pair accepts the packet. If so, the caller takes a receive request for
/// kGrhBytes and the payload, and drops the packet if none is posted. A receive that is too small
/// completes with local_length_error, as on cards.
std::expected<void, DatagramDrop> check_datagram(const DatagramConfig& config,
                                                 const wire::Packet& packet);

}  // namespace verbatim::transport
