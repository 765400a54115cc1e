#pragma once

#include <cstdint>
#include <expected>

#include "base/types.h"
#include "transport/ib/outgoing_packet.h"

/// Unreliable datagrams (IBA volume 1, section 9.8.3): one packet a message, no state but a
/// counter, so functions are enough.
namespace verbatim::transport {

/// What a receive request of a datagram queue pair holds before the payload: a GRH, or 20 unused
/// bytes and an IPv4 header (IBA 11.4.2.1, annex A17).
inline constexpr std::uint32_t kGrhBytes = 40;

/// A Q_Key with this bit stands for the queue pair's own one in a send request, and only privileged
/// programs may set one (IBA 10.2.5, Q_Keys).
inline constexpr std::uint32_t kControlledQKey = 0x8000'0000;

struct DatagramConfig {
  Qpn qpn;
  PKey pkey = kDefaultPKey;
  QKey qkey{};
  Mtu mtu = Mtu::k1024;  // The port's.
};

/// Where a datagram goes.
struct DatagramDestination {
  Qpn qpn;  // kMulticastQpn to a multicast group.
  QKey qkey{};
};

wire::Opcode datagram_opcode(bool immediate);

/// The packet of a send request. `length` is at most the MTU: local_length_error otherwise. The
/// operation is send or send_with_immediate: local_qp_operation_error otherwise.
std::expected<OutgoingPacket, Status> make_datagram(const DatagramConfig& config,
                                                    const DatagramDestination& destination,
                                                    const SendRequest& request, Slot slot, Psn psn);

/// Why a datagram is dropped. There is nobody to tell: a counter each.
enum class DatagramDrop : std::uint8_t {
  wrong_opcode,  // Not a UD SEND.
  wrong_pkey,
  wrong_qkey,
  too_long,  // More payload than the MTU.
};
const char* describe(DatagramDrop reason);

/// Whether the queue pair takes the packet. The caller then takes a receive request (none: the
/// packet is dropped) of kGrhBytes and the payload; one that is too small ends with
/// local_length_error, as adapters do.
std::expected<void, DatagramDrop> check_datagram(const DatagramConfig& config,
                                                 const wire::Packet& packet);

/// Two P_Keys match when their lower 15 bits are equal and not 0, and at least one is a full
/// member's (IBA 10.9.3).
constexpr bool pkeys_match(PKey one, PKey other) {
  constexpr std::uint16_t kMembership = 0x8000;
  constexpr std::uint16_t kBase = 0x7fff;
  return (raw(one) & kBase) == (raw(other) & kBase) && (raw(one) & kBase) != 0 &&
         ((raw(one) | raw(other)) & kMembership) != 0;
}

}  // namespace verbatim::transport
