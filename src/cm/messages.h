#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/net/address.h"
#include "base/net/path.h"
#include "base/types.h"
#include "wire/mad/cm_message.h"
#include "wire/mad/rdma_ip_header.h"

/// Values that the connection manager and its user exchange.
namespace verbatim::cm {

using wire::PortSpace;
using wire::RejectReason;
using wire::ServiceId;
using wire::SidrStatus;

/// Names a connection or a service resolution of this program: its local communication id. Valid
/// from the call or effect that returned it until the effect that ends it, or until `release`.
/// Later it is refused with EINVAL (`release`: ignored). Ids repeat only after millions.
enum class ConnectionId : std::uint32_t {};
enum class ListenerId : std::uint32_t {};

/// Bytes that the consumers exchange with a message; at most `k*PrivateBytes` below. Received data
/// always has the full length of the message's field, because the message does not say how much of
/// it the sender filled.
using PrivateData = InplaceVector<std::byte, 255>;

inline constexpr std::size_t kRequestPrivateBytes = wire::CmReq::kPrivateDataBytes;  // 92
/// After the RDMA IP header, which all port spaces of librdmacm except AF_IB use: 56.
inline constexpr std::size_t kIpRequestPrivateBytes =
    kRequestPrivateBytes - wire::RdmaIpHeader::kSize;
inline constexpr std::size_t kReplyPrivateBytes = wire::CmRep::kPrivateDataBytes;        // 196
inline constexpr std::size_t kRejectPrivateBytes = wire::CmRej::kPrivateDataBytes;       // 148
inline constexpr std::size_t kDisconnectPrivateBytes = wire::CmDreq::kPrivateDataBytes;  // 220
inline constexpr std::size_t kResolvePrivateBytes = wire::CmSidrReq::kPrivateDataBytes;  // 216
inline constexpr std::size_t kIpResolvePrivateBytes =
    kResolvePrivateBytes - wire::RdmaIpHeader::kSize;                                   // 180
inline constexpr std::size_t kAnswerPrivateBytes = wire::CmSidrRep::kPrivateDataBytes;  // 136

/// The path between the two queue pairs' ports, as `ibv_modify_qp` to RTR needs it.
struct Path {
  SocketAddress local;  // The own address of our MADs; the UDP port is not used.
  /// The way to the peer for MADs; over InfiniBand for the queue pairs' packets, too.
  verbatim::Path remote;
  Gid local_gid{};
  Gid remote_gid{};
  PKey pkey = kDefaultPKey;
  Mtu mtu = Mtu::k1024;
  std::uint8_t packet_rate = 3;  // As `enum ibv_rate`: 10 Gb/s.
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 64;
  /// How long the peer's queue pair waits for an acknowledgement: 4.096 us * 2^this.
  std::uint8_t ack_timeout = 17;
};

/// The two ends as librdmacm's user names them, with ports. Both are empty for a service without
/// the RDMA IP header (AF_IB).
struct IpEndpoints {
  SocketAddress source;       // The end that asks for the connection.
  SocketAddress destination;  // The end that listens.
  bool empty() const { return source.empty() && destination.empty(); }
};

using wire::CmTransport;  // rc, uc or xrc. With xrc the active side is the initiator.

/// The parameters of one side's queue pair.
struct QueuePairOffer {
  Qpn qpn{};
  Psn starting_psn{};  // The first PSN that the *other* side sends (IBA 12.7.31).
  /// READs and atomics outstanding. From the user: what this side accepts (responder) and wants to
  /// issue (initiator). From the engine, as librdmacm delivers them: the maximum that this side may
  /// accept, and may issue; the engine has exchanged the peer's values.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 7;
  bool srq = false;
};

/// Repetition of messages: `retries` times, after `response_timeout` each (4.096 us * 2^this, from
/// 2^14 to 2^24 of them).
struct RetryPolicy {
  std::uint8_t response_timeout = 18;  // 1.07 s. Linux: 20, 4.3 s.
  std::uint8_t retries = 15;
};

/// --- effects of `ConnectionManager`: to be carried out, all of them and in order. ---

/// Send this MAD from QP1 at `source` to QP1 at `destination` (Q_Key 0x80010000).
struct SendMad {
  SocketAddress source;
  verbatim::Path destination;
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
/// The REP to our `connect`. Bring the queue pair to RTS, then call `establish` (or `reject`).
struct ConnectResponse {
  ConnectionId connection{};
  QueuePairOffer peer;
  std::uint8_t target_ack_delay = 0;
  PrivateData private_data;
};
/// Passive side: the peer's RTU has arrived, or `notify_established` was called.
struct Established {
  ConnectionId connection{};
  PrivateData private_data;  // Empty if data came before the RTU.
};
/// The peer has rejected or ended the connection with a REJ, before or after it was established.
/// Ends the connection.
struct Rejected {
  ConnectionId connection{};
  RejectReason reason{};
  PrivateData private_data;
};
/// The peer did not answer our REQ, REP or SIDR_REQ after all repetitions. Ends the connection.
struct Unreachable {
  ConnectionId connection{};
};
/// Comes once for each connection that was established or about to be: the peer disconnected,
/// answered our `disconnect`, or did not answer it. The connection stays in TimeWait.
struct Disconnected {
  ConnectionId connection{};
  PrivateData private_data;  // From the peer's DREQ or DREP; empty if neither came.
};
/// No packet of the connection can arrive any more: the queue pair's number may be used again. Ends
/// the connection.
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
