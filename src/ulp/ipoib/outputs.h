#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/inplace_vector.h"
#include "base/net/address.h"
#include "base/time.h"
#include "ulp/ipoib/wire/link_layer.h"

/// What the engines of an interface want done: values, which the driver carries out in order.
namespace verbatim::ulp::ipoib {

/// Names a way through the subnet: an address handle of the driver's.
enum class WayId : std::uint32_t {};

/// Names a connection to a peer; none has the number of an earlier one.
enum class PeerId : std::uint32_t {};

/// Where a datagram goes.
struct Destination {
  WayId way{};
  Qpn qpn{};  // `kMulticastQpn`: a group.
};

/// Send this packet behind its encapsulation. It is valid until the next input.
struct SendPacket {
  Destination to;
  EtherType type{};
  ByteSpan packet;
};
/// Which router leads to `address`? A TUN interface does not say: ask the kernel (RTM_GETROUTE).
struct AskNextHop {
  SocketAddress address;
};
/// Answered by `on_path`, with a way that is ours until `CloseWay`.
struct AskPath {
  Gid gid;
};
struct CloseWay {
  WayId way;
};
/// Be a member of the group, and find the way to it: answered by `on_group`, again if the way
/// becomes another one. `receives`: what is sent to it comes here, too.
struct Join {
  Gid group;
  bool receives = false;
};
/// Its way is closed, too.
struct Leave {
  Gid group;
};

/// Answered by `on_connected`, or by `on_ended`.
struct Connect {
  PeerId peer{};
  HardwareAddress to;
};
/// Send this packet by a connection. `on_sent` says when it has left.
struct SendByConnection {
  PeerId peer{};
  EtherType type{};
  ByteSpan packet;
};
/// It is not answered.
struct EndConnection {
  PeerId peer{};
};
/// Tell the kernel, in the name of the next hop, that its packet is longer than `mtu`.
struct TellTooLong {
  ByteSpan packet;
  SocketAddress hop;
  std::uint32_t mtu = 0;
};

using Output = std::variant<SendPacket, AskNextHop, AskPath, CloseWay, Join, Leave, Connect,
                            SendByConnection, EndConnection, TellTooLong>;
/// Each input of a datagram sender needs less than `kReserve`, and loops end when no more is left:
/// what is due then is due again at once.
inline constexpr std::size_t kReserve = 32;
using Outputs = InplaceVector<Output, 256>;
inline bool has_room(const Outputs& out) { return out.size() + kReserve < out.capacity(); }

/// Packets that outputs name, until the next input.
using Packet = std::vector<std::byte>;
inline Packet copy_of(ByteSpan packet) { return {packet.begin(), packet.end()}; }

struct SenderCounters {
  std::uint64_t packets = 0;
  std::uint64_t no_room = 0;      // Dropped: as many wait for this neighbour or group already.
  std::uint64_t unreachable = 0;  // Dropped: no route, no answer to ARP, no path.
  std::uint64_t too_long = 0;     // Dropped: longer than its peer or group takes.
};

}  // namespace verbatim::ulp::ipoib
