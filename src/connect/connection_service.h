#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>

#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "cm/ib/connection_manager.h"
#include "cm/iwarp/stream_manager.h"
#include "connect/addresses.h"

/// Connections of one program, independent of the protocol: InfiniBand's CM in MADs, or MPA in TCP
/// connections. The values are those of `cm/`, which have names in this namespace, too.
namespace verbatim::connect {

using cm::AcceptParameters;
using cm::CmTransport;
using cm::ConnectionId;
using cm::ConnectParameters;
using cm::ConnectRequest;
using cm::ConnectResponse;
using cm::Disconnected;
using cm::Established;
using cm::IpEndpoints;
using cm::ListenAt;
using cm::ListenerId;
using cm::Path;
using cm::PrivateData;
using cm::QueuePairOffer;
using cm::Rejected;
using cm::RejectReason;
using cm::ResolveParameters;
using cm::ServiceId;
using cm::SidrAnswer;
using cm::SidrRequest;
using cm::SidrResponse;
using cm::SidrStatus;
using cm::StreamEnded;
using cm::StreamFailed;
using cm::TimeWaitExit;
using cm::Unreachable;
using StreamAgreement = cm::MpaParameters;
using wire::PortSpace;
using wire::service_id_of;
using wire::ServiceRange;

inline constexpr std::size_t kMadBytes = wire::kMadBytes;

/// State of a connection, for the agent: what it tells the peer if this program dies.
struct ConnectionNote {
  ConnectionId local_id{};
  std::uint32_t remote_id = 0;
  Qpn remote_qpn{};
  SocketAddress local;
  verbatim::Path remote;
  bool is_established = false;
  bool has_sent_reply = false;
};

/// The environment of a connection service: in librdmacm.so.1 the private symbol of
/// libibverbs.so.1, in tests a fake. No function waits for the agent.
class Host {
 public:
  /// Sends from QP1 at `source` to the QP1 to which `destination` leads.
  virtual void send_mad(const SocketAddress& source, const verbatim::Path& destination,
                        std::span<const std::byte, kMadBytes> mad) = 0;
  /// Until `unwatch`, `on_ready(tag)` is called when one of `events` (of epoll) occurs; with
  /// EPOLLONESHOT once. Calls that have begun are completed.
  virtual Result<void> watch(int fd, std::uint32_t events, std::uint64_t tag) = 0;
  virtual void unwatch(int fd) = 0;
  /// Moves the queue pair from INIT to RTS over this socket.
  virtual Result<void> start_stream(Qpn qpn, UniqueFd socket, const StreamAgreement& agreed,
                                    bool is_initiator) = 0;
  /// Moves the queue pair to the error state. It ends its side of the stream now, or when what it
  /// has begun to send has left and the peer is known to be ready.
  virtual void end_stream(Qpn qpn) = 0;
  /// Writes an entry of the agent's table, which has `notes_max()` entries; null: frees the entry.
  virtual void note(std::uint32_t entry, const ConnectionNote* note) = 0;
  virtual std::uint32_t notes_max() const = 0;
  /// The clock; tests replace it.
  virtual TimeNs now() const { return monotonic_now(); }

 protected:
  ~Host() = default;
};

using Event =
    std::variant<ConnectRequest, ConnectResponse, Established, Rejected, Unreachable, Disconnected,
                 TimeWaitExit, SidrRequest, SidrResponse, StreamFailed, StreamEnded>;

/// Receives the events of connections, within a call of the service and under the caller's lock. It
/// may call the service.
class Events {
 public:
  virtual void on(const Event& event) = 0;

 protected:
  ~Events() = default;
};

/// Connections of one program. Each call requires the caller's lock, always the same one; none
/// waits. The life of ids: cm/messages.h. Errors: cm/ib/connection_manager.h,
/// cm/iwarp/stream_manager.h.
class ConnectionService {
 public:
  virtual ~ConnectionService() = default;

  /// `backlog`: number of requests that may wait for `note_taken` or an answer; 0 or less: the
  /// default.
  virtual Result<ListenerId> listen(ListenAt where, int backlog) = 0;
  /// Requests that were delivered before stay valid.
  virtual void unlisten(ListenerId listener) = 0;
  /// The user has taken the request from the program's queue.
  virtual void note_taken(ConnectionId id) = 0;

  /// Its events come after it has returned.
  virtual Result<ConnectionId> connect(const ConnectParameters& parameters) = 0;
  virtual Result<void> accept(ConnectionId id, const AcceptParameters& parameters) = 0;
  /// Called after ConnectResponse, when the queue pair is ready.
  virtual Result<void> establish(ConnectionId id) = 0;
  virtual Result<void> reject(ConnectionId id, RejectReason reason, ByteSpan private_data) = 0;
  virtual Result<void> disconnect(ConnectionId id) = 0;
  /// The user releases the id, in any state. No event of it follows.
  virtual void release(ConnectionId id) = 0;

  /// Resolves a datagram service; EOPNOTSUPP over MPA.
  virtual Result<ConnectionId> resolve(const ResolveParameters& parameters) = 0;
  virtual Result<void> answer(ConnectionId id, const SidrAnswer& answer) = 0;
  /// Data has arrived on the queue pair, so the connection is established.
  virtual Result<void> notify_established(ConnectionId id) = 0;

  /// Returns true for MPA: queue pairs go from INIT to RTS with the stream, listeners and peers are
  /// identified by IP addresses only, and a peer's GID and MTU are not known.
  virtual bool uses_streams() const = 0;

  // Input from the host, in its background thread.
  virtual void on_mad(ByteSpan mad, const verbatim::Path& from, const SocketAddress& to) = 0;
  /// Returns the queue pair that has the stream of `tag`; 0: none. Before it calls `on_ready`, and
  /// without the lock, the host lets this queue pair process all received data: so the program gets
  /// the data before the event that the peer has disconnected.
  virtual Qpn queue_pair_of(std::uint64_t tag) const = 0;
  virtual void on_ready(std::uint64_t tag) = 0;
  /// The node's addresses have changed.
  virtual void on_addresses_changed() = 0;
};

/// Both fail if there is no descriptor for a timer.
Result<std::unique_ptr<ConnectionService>> make_ib_service(Host& host, Events& events,
                                                           const cm::Settings& settings);
/// `seed`: for ids. `wishes`: the value of VERBATIM_MPA (cm/iwarp/mpa_setup.h); EINVAL.
Result<std::unique_ptr<ConnectionService>> make_mpa_service(Host& host, Events& events,
                                                            const Addresses& addresses,
                                                            std::uint64_t seed,
                                                            std::string_view wishes);

}  // namespace verbatim::connect
