#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/net/address.h"
#include "base/types.h"
#include "wire/mad/cm_message.h"
#include "wire/mad/rdma_ip_header.h"

/// What the connection manager and its program say to each other: values only.
namespace verbatim::cm {

using wire::PortSpace;
using wire::RejectReason;
using wire::ServiceId;
using wire::SidrStatus;

/// Names a connection or a service resolution at this program: its local communication id. It is
/// good from the call or effect that gave it until the effect that ends it, or `release`; used
/// later it is refused with EINVAL (`release`: ignored). Ids come again only after millions.
enum class ConnectionId : std::uint32_t {};
enum class ListenerId : std::uint32_t {};

/// Bytes that the consumers exchange with a message; at most `k*PrivateBytes` below. What arrives
/// has always the full length of its message's field: nothing tells how much the sender filled.
using PrivateData = InplaceVector<std::byte, 255>;

inline constexpr std::size_t kRequestPrivateBytes = wire::CmReq::kPrivateDataBytes;  // 92
/// With the RDMA IP header before it, as all port spaces of librdmacm have it but AF_IB's: 56.
inline constexpr std::size_t kIpRequestPrivateBytes =
    kRequestPrivateBytes - wire::RdmaIpHeader::kSize;
inline constexpr std::size_t kReplyPrivateBytes = wire::CmRep::kPrivateDataBytes;        // 196
inline constexpr std::size_t kRejectPrivateBytes = wire::CmRej::kPrivateDataBytes;       // 148
inline constexpr std::size_t kDisconnectPrivateBytes = wire::CmDreq::kPrivateDataBytes;  // 220
inline constexpr std::size_t kResolvePrivateBytes = wire::CmSidrReq::kPrivateDataBytes;  // 216
inline constexpr std::size_t kIpResolvePrivateBytes =
    kResolvePrivateBytes - wire::RdmaIpHeader::kSize;                                   // 180
inline constexpr std::size_t kAnswerPrivateBytes = wire::CmSidrRep::kPrivateDataBytes;  // 136

/// Between which two ports the queue pairs will talk, and how: what `ibv_modify_qp` to RTR needs.
struct Path {
  SocketAddress local;   // Where MADs leave from and arrive; their UDP ports mean nothing.
  SocketAddress remote;  // Where MADs go.
  Gid local_gid{};
  Gid remote_gid{};
  PKey pkey = kDefaultPKey;
  Mtu mtu = Mtu::k1024;
  std::uint8_t packet_rate = 3;  // As `enum ibv_rate`: 10 Gb/s.
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 64;
  /// How long the peer's queue pair should wait for an acknowledgement: 4.096 us * 2^this.
  std::uint8_t ack_timeout = 17;
};

/// The two ends as librdmacm's user names them, with ports. Both empty for a service without the
/// RDMA IP header (AF_IB).
struct IpEndpoints {
  SocketAddress source;       // Of who asks for the connection.
  SocketAddress destination;  // Of who listens.
  bool empty() const { return source.empty() && destination.empty(); }
};

using wire::CmTransport;  // rc, uc or xrc. With xrc the asking side is the initiator.

/// What one side tells of its queue pair.
struct QueuePairOffer {
  Qpn qpn{};
  Psn starting_psn{};  // At which the *other* side begins to send (IBA 12.7.31).
  /// READs and atomics outstanding. In what the user says: what this side accepts (responder) and
  /// wants to issue (initiator). In what the engine delivers they are turned round already, as
  /// librdmacm delivers them: the most that this side may accept, and may issue.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 7;
  bool srq = false;
};

/// How messages are repeated: `response_timeout` each (4.096 us * 2^this, from 2^14 to 2^24 of
/// them), `retries` times.
struct RetryPolicy {
  std::uint8_t response_timeout = 18;  // 1.07 s. Linux: 20, 4.3 s.
  std::uint8_t retries = 15;
};

/// --- effects: what `ConnectionManager` tells; all of them are to be taken, in order. ---

/// Send this MAD from QP1 at `source` to QP1 at `destination` (Q_Key 0x80010000).
struct SendMad {
  SocketAddress source;
  SocketAddress destination;
  std::array<std::byte, wire::kMadBytes> bytes{};
};

/// A REQ for a listener. Answer with `accept` or `reject` (or `delay`).
struct ConnectRequest {
  ConnectionId connection{};
  ListenerId listener{};
  ServiceId service{};
  IpEndpoints ends;  // `source` is the peer.
  Path path;         // As this side sees it.
  CmTransport transport = CmTransport::rc;
  QueuePairOffer peer;
  std::uint8_t retry_count = 7;
  PrivateData private_data;
};
/// The REP to our `connect`. Bring the queue pair to RTS, then `establish` (or `reject`).
struct ConnectResponse {
  ConnectionId connection{};
  QueuePairOffer peer;
  std::uint8_t target_ack_delay = 0;
  PrivateData private_data;
};
/// Passive side: the peer's RTU has come, or `notify_established` said the same.
struct Established {
  ConnectionId connection{};
  PrivateData private_data;  // Empty where data came before the RTU.
};
/// The peer said no, at any time before the connection stood or while it did. Ends the connection.
struct Rejected {
  ConnectionId connection{};
  RejectReason reason{};
  PrivateData private_data;
};
/// The peer does not answer our REQ, our REP, or our SIDR_REQ: all repetitions are spent. Ends the
/// connection.
struct Unreachable {
  ConnectionId connection{};
};
/// Once for each connection that stood or was about to: the peer asked for the end, answered our
/// `disconnect`, or did not answer it at all. The connection lives on in TimeWait.
struct Disconnected {
  ConnectionId connection{};
  PrivateData private_data;  // Of the peer's DREQ or DREP; empty if neither came.
};
/// No packet of the connection can be on its way any more: the queue pair's number may serve again.
/// Ends the connection.
struct TimeWaitExit {
  ConnectionId connection{};
};
/// A SIDR_REQ for a listener of datagrams. Answer with `answer`.
struct SidrRequest {
  ConnectionId resolution{};
  ListenerId listener{};
  ServiceId service{};
  IpEndpoints ends;
  Path path;
  PrivateData private_data;
};
/// The SIDR_REP to our `resolve`. Ends the resolution.
struct SidrResponse {
  ConnectionId resolution{};
  SidrStatus status{};
  Qpn qpn{};
  QKey qkey{};
  PrivateData private_data;
};

using Effect = std::variant<SendMad, ConnectRequest, ConnectResponse, Established, Rejected,
                            Unreachable, Disconnected, TimeWaitExit, SidrRequest, SidrResponse>;
using Effects = std::vector<Effect>;

}  // namespace verbatim::cm
