#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/time.h"
#include "cm/ib/connection.h"
#include "cm/ib/guard/fair_queue.h"
#include "cm/ib/guard/unmatched.h"
#include "cm/ib/listeners.h"
#include "cm/identifiers.h"
#include "cm/messages.h"
#include "cm/timers.h"

namespace verbatim::cm {

struct Settings {
  /// The upper 10 bits of each local communication id, by which the agent routes answers.
  std::uint16_t slot = 0;
  std::uint64_t node_guid = 0;
  /// Seed of ids and transaction ids: different at each start of a program, so that messages of an
  /// earlier process are recognised.
  std::uint64_t seed = 0;
  /// Limit of connections and resolutions, those in TimeWait included. At the limit, calls are
  /// refused (ENOMEM) and REQs rejected with "no resources".
  std::size_t connections_max = 65'536;
  /// Bounds for what peers can make us keep (README.md). At least 1 each.
  std::size_t half_open_max = 4'096;
  std::size_t half_open_of_source_max = 1'024;
  std::size_t remembered_max = 1'024;
  std::size_t ending_max = 16'384;
};

/// Counts of events that cause no effect.
struct Counters {
  std::uint64_t malformed = 0;  // MADs that are no valid CM message.
  std::uint64_t unknown = 0;    // Messages about an unknown connection.
  std::uint64_t strangers = 0;  // Messages about a connection from another address than its peer's.
  std::uint64_t duplicates = 0;   // REQ, REP or SIDR_REQ that had arrived before.
  std::uint64_t repeated = 0;     // Messages sent again because no answer came.
  std::uint64_t turned_away = 0;  // Requests dropped because too many are half-open.
  std::uint64_t displaced = 0;    // Half-open connections dropped for another source's.
};

/// Addresses and time of an incoming message.
struct Arrival {
  ReplyPath reply_path;
  TimeNs now = 0;
};

struct ConnectParameters {
  ServiceId service{};
  Path path;
  /// If both ends are set, the private data begins with the RDMA IP header, and the user's part has
  /// at most 56 bytes.
  IpEndpoints ends;
  CmTransport transport = CmTransport::rc;
  QueuePairOffer offer;
  std::uint8_t retry_count = 7;
  ByteSpan private_data{};
  RetryPolicy retry{};
};

struct AcceptParameters {
  QueuePairOffer offer;
  std::uint8_t target_ack_delay = 0;
  ByteSpan private_data{};
};

struct ResolveParameters {
  ServiceId service{};
  Path path;
  IpEndpoints ends;  // As in `ConnectParameters`; private data is then at most 180 bytes.
  ByteSpan private_data{};
  RetryPolicy retry{};
};

/// The answer to a SIDR_REQ; queue pair and key are valid only if the status is `found`.
struct SidrAnswer {
  SidrStatus status = SidrStatus::found;
  Qpn qpn{};
  QKey qkey{};
  ByteSpan private_data{};
};

/// The InfiniBand connection manager of one program (IBA volume 1, chapter 12) with the RDMA IP CM
/// service (annex A11): connections, and service resolution for datagrams. A pure step engine:
/// calls, MADs and time in; effects out, appended in order. Not thread-safe. Time never goes
/// backwards.
///
/// The life of a connection:
///
///     active   connect -> ConnectResponse -> establish ->             disconnect   -> Disconnected
///                      -> Rejected, Unreachable: ended                or the peer's   ->
///                      TimeWaitExit
///     passive  ConnectRequest -> accept -> Established ->                              : ended
///                             -> reject: ended
///
/// All calls except `release` refuse, with EINVAL and a text, an unknown id, a call that does not
/// fit the state, and private data that is too long.
class ConnectionManager {
 public:
  explicit ConnectionManager(const Settings& settings);

  /// EADDRINUSE if a listener for the same service and address exists.
  Result<ListenerId> listen(const ListenAt& where);
  /// Requests that were delivered before stay valid: each is answered as usual.
  void unlisten(ListenerId listener);
  /// The user has taken a request from the program's queue, which frees an entry of the listener's
  /// backlog. Answering the request does the same.
  void note_taken(ConnectionId id);

  Result<ConnectionId> connect(const ConnectParameters& parameters, TimeNs now, Effects& out);
  Result<void> accept(ConnectionId id, const AcceptParameters& parameters, TimeNs now,
                      Effects& out);
  /// Called after `ConnectResponse`, when the queue pair is in RTS: sends the RTU. The connection
  /// is established.
  Result<void> establish(ConnectionId id, ByteSpan private_data, TimeNs now, Effects& out);
  /// Called after `ConnectRequest` or `ConnectResponse`. Ends the connection without another
  /// effect. The refusal is remembered as long as the peer may repeat its message.
  Result<void> reject(ConnectionId id, RejectReason reason, ByteSpan private_data, TimeNs now,
                      Effects& out);
  /// Called after `ConnectRequest` or `ConnectResponse`: sends an MRA, which announces that the
  /// answer may take 4.096 us * 2^service_timeout more. The engine sends one by itself when the
  /// peer repeats its message.
  Result<void> delay(ConnectionId id, std::uint8_t service_timeout, TimeNs now, Effects& out);
  /// Passive side, called after `accept`: data arrived on the queue pair, so the RTU was lost or is
  /// late. `Established` follows, once. Does nothing in any later state (the event came late).
  Result<void> notify_established(ConnectionId id, TimeNs now, Effects& out);
  /// Disconnects a connection that is established or accepted. Does nothing in any later state.
  Result<void> disconnect(ConnectionId id, ByteSpan private_data, TimeNs now, Effects& out);
  /// The user releases the id, in any state: refuses, disconnects or cancels the connection. It
  /// causes only MADs from now on.
  void release(ConnectionId id, TimeNs now, Effects& out);

  /// SIDR: asks for the queue pair and Q_Key of a datagram service. `SidrResponse` or `Unreachable`
  /// follows.
  Result<ConnectionId> resolve(const ResolveParameters& parameters, TimeNs now, Effects& out);
  /// Called after `SidrRequest`. Ends the resolution; the answer is sent again if the peer asks
  /// again.
  Result<void> answer(ConnectionId id, const SidrAnswer& answer, TimeNs now, Effects& out);

  /// Handles a MAD for QP1. `from`: the way back to its sender, which answers take; `to`: the
  /// address at which it arrived, from which they are sent. A MAD that is no CM message is ignored
  /// and counted.
  void on_mad(ByteSpan mad, const verbatim::Path& from, const SocketAddress& to, TimeNs now,
              Effects& out);
  void on_timeout(TimeNs now, Effects& out);
  /// The time at which to call `on_timeout`; kNever if nothing waits.
  TimeNs deadline() const { return timers_.deadline(); }

  /// Returns the peer's communication id; 0 if it is not known.
  std::uint32_t peer_id(ConnectionId id) const {
    const auto found = connections_.find(id);
    return found == connections_.end() ? 0 : raw(found->second.remote_id);
  }
  /// Returns the number of connections and resolutions, those in TimeWait and released ones
  /// included.
  std::size_t size() const { return connections_.size(); }
  const Counters& counters() const { return counters_; }

 private:
  // One function for each incoming message, in the file with the calls of the same part of the
  // protocol.
  void on_message(const wire::CmReq& req, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmMra& mra, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmRej& rej, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmRep& rep, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmRtu& rtu, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmDreq& dreq, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmDrep& drep, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmSidrReq& request, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmSidrRep& reply, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmLap& lap, const Arrival& arrival, Effects& out);
  void on_message(const wire::CmApr& apr, const Arrival& arrival, Effects& out);

  // connection_manager.cpp: the tables.
  Connection* find(ConnectionId id);
  /// Returns the connection that a message is about. Returns null, and counts the message, unless
  /// it comes from the peer's address and both ids match.
  Connection* find(wire::CommunicationId local, wire::CommunicationId remote,
                   const Arrival& arrival);
  bool is_from_peer(const Connection& connection, const Arrival& arrival);
  Result<Connection*> find_in(ConnectionId id, State state, const char* call);
  /// Returns null if the table is full of connections that must be kept.
  Connection* create(State state, const Path& path, Effects& out);
  void erase(Connection& connection);
  void set_peer(Connection& connection, PeerKey key);
  void set_peer_queue_pair(Connection& connection, PeerQueuePair key);
  void forget_peer_queue_pair(Connection& connection);
  std::uint64_t next_transaction() { return ++transaction_; }

  // connection_manager.cpp: helpers of all parts.
  void send(Connection& connection, const wire::CmMessage& message, Effects& out);
  void await_answer(Connection& connection, TimeNs now);
  void set_timer(Connection& connection, TimeNs at);
  void on_timer(Connection& connection, TimeNs now, Effects& out);
  void give_up(Connection& connection, TimeNs now, Effects& out);
  void end_rejected(Connection& connection, RejectReason reason, const PrivateData& private_data,
                    Effects& out);
  // bounds.cpp: limits on what peers can make us keep, and for how long.
  void enter(Connection& connection, State state, Effects& out);
  void keep(Connection& connection);
  void keep_no_longer(Connection& connection);
  void drop_oldest(std::map<std::uint64_t, ConnectionId>& kept, Effects& out);
  bool admit(const Source& source, ListenerId listener, Effects& out);
  void wait_at(Connection& connection, ListenerId listener);
  bool make_room(const FairQueue& queue, const Source& source, Effects& out);
  void displace(Connection& connection, Effects& out);
  // connect.cpp
  void on_repeated_reply(Connection& connection, Effects& out);
  // accept.cpp
  std::optional<RejectReason> reject_reason(const wire::CmReq& req, const Arrival& arrival,
                                            Effects& out);
  void deliver_request(const wire::CmReq& req, Connection& connection, ListenerId listener,
                       const IpEndpoints& ends, Effects& out);
  void on_repeated_request(Connection& connection, Effects& out);
  void become_established(Connection& connection, const PrivateData& private_data, Effects& out);
  // reject.cpp
  void send_reject(Connection& connection, wire::CmAbout about, RejectReason reason,
                   ByteSpan private_data, Effects& out);
  void send_delay(Connection& connection, std::uint8_t service_timeout, Effects& out);
  void refuse_and_remember(Connection& connection, RejectReason reason, ByteSpan private_data,
                           TimeNs now, Effects& out);
  Connection* find_rejected(const wire::CmRej& rej, const Arrival& arrival);
  // disconnect.cpp
  void start_disconnect(Connection& connection, ByteSpan private_data, TimeNs now, Effects& out);
  void finish(Connection& connection, const PrivateData& private_data, TimeNs now, Effects& out);
  // resolve.cpp
  void deliver_resolution(const wire::CmSidrReq& request, Connection& resolution,
                          ListenerId listener, const IpEndpoints& ends, Effects& out);
  void send_answer(Connection& resolution, const SidrAnswer& answer, TimeNs now, Effects& out);

  Settings settings_;
  Identifiers identifiers_;
  std::uint64_t transaction_;
  Listeners listeners_;
  Timers timers_;
  std::unordered_map<ConnectionId, Connection> connections_;
  std::uint64_t serial_ = 0;
  FairQueue half_open_;
  std::map<std::uint64_t, ConnectionId> remembered_, ending_;  // Oldest first.
  std::map<ListenerId, FairQueue> backlogs_;
  // Ordered maps: no choice of keys by a peer makes a lookup slow.
  std::map<PeerKey, ConnectionId> peers_;
  std::map<PeerQueuePair, ConnectionId> peer_queue_pairs_;
  Counters counters_;
};

}  // namespace verbatim::cm
