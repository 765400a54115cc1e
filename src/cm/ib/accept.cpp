// The passive side of a connection: REQ in, REP out, RTU in (IBA 12.9.5, figure 135).
#include "cm/ib/compose.h"
#include "cm/ib/connection_manager.h"

namespace verbatim::cm {
namespace {

/// Answers leave by the REQ's path, so it must not name another sender than its packet. A path
/// through a router has the sender's GID, and no LIDs.
std::optional<RejectReason> other_sender(const wire::CmPath& path, const InfinibandPath& from) {
  if (path.subnet_local) {
    if (Lid{path.local_lid} != from.dlid) return RejectReason::primary_lid;
  } else if (!from.grh || from.grh->destination != path.local_gid) {
    return RejectReason::primary_gid;
  }
  return std::nullopt;
}

}  // namespace

void ConnectionManager::on_message(const wire::CmReq& req, const Arrival& arrival, Effects& out) {
  const PeerKey peer{source_of(arrival.reply_path.from), req.local_id, req.local_ca_guid};
  if (const auto known = peers_.find(peer); known != peers_.end()) {
    return on_repeated_request(*find(known->second), out);
  }
  if (const auto reason = reject_reason(req, arrival, out)) {
    out.push_back(refuse_request(arrival.reply_path, req, *reason));
    return;
  }
  IpEndpoints ends = endpoints_of(req.service_id, req.private_data, arrival.reply_path.to);
  const Wanted by_service{.service = req.service_id, .gid = req.primary.remote_gid};
  Wanted by_address = by_service;
  by_address.address = ends.destination;
  auto listener = listeners_.find(by_address);
  if (!listener &&
      wire::is_sdp(req.service_id)) {  // A listener of AF_IB, to which a Hello is data.
    ends = {};
    listener = listeners_.find(by_service);
  }
  if (!listener) {
    out.push_back(refuse_request(arrival.reply_path, req, RejectReason::invalid_service_id));
    return;
  }
  // Dropped without an answer, as by Linux: the peer repeats it, and finds room later.
  if (!admit(peer.source, *listener, out)) return;
  Connection* const connection = create(
      State::request_received, path_of(req, arrival.reply_path.from, arrival.reply_path.to), out);
  if (connection == nullptr) {
    // The request is not remembered: a repetition counts as a new one.
    out.push_back(refuse_request(arrival.reply_path, req, RejectReason::no_resources));
    return;
  }
  connection->transaction = arrival.reply_path.transaction;
  set_peer(*connection, peer);
  deliver_request(req, *connection, *listener, ends, out);
}

void ConnectionManager::deliver_request(const wire::CmReq& req, Connection& connection,
                                        ListenerId listener, const IpEndpoints& ends,
                                        Effects& out) {
  connection.service = req.service_id;
  connection.transport = req.transport;
  connection.remote_qpn = req.local_qpn;
  connection.set_retry({within_reason(req.local_response_timeout), req.max_cm_retries});
  connection.remember = 2 * message_timeout_ns(within_reason(req.remote_response_timeout));
  wait_at(connection, listener);
  set_peer_queue_pair(connection,
                      {connection.peer.source, req.local_ca_guid, req.local_qpn.value()});
  out.push_back(ConnectRequest{
      .connection = connection.id,
      .listener = listener,
      .service = req.service_id,
      .ends = ends,
      .path = connection.path,
      .transport = req.transport,
      .peer = offer_of(req),
      .retry_count = req.retry_count,
      .private_data = private_data_of(req.private_data, header_bytes(req.service_id, ends))});
}

/// IBA 12.9.8.3.1 and table 109: reasons to refuse a REQ before the user sees it.
std::optional<RejectReason> ConnectionManager::reject_reason(const wire::CmReq& req,
                                                             const Arrival& arrival, Effects& out) {
  const bool known_transport = req.transport == CmTransport::rc ||
                               req.transport == CmTransport::uc ||
                               req.transport == CmTransport::xrc;
  if (!known_transport) return RejectReason::invalid_transport;
  if (!is_mtu(req.path_mtu)) return RejectReason::invalid_path_mtu;
  if (const auto* const from = std::get_if<InfinibandPath>(&arrival.reply_path.from)) {
    if (const auto reason = other_sender(req.primary, *from)) return reason;
  }

  // Only the peer's own address can name its queue pair: a REQ from another address ends no
  // connection.
  const auto known = peer_queue_pairs_.find(
      {source_of(arrival.reply_path.from), req.local_ca_guid, req.local_qpn.value()});
  if (known == peer_queue_pairs_.end()) return std::nullopt;
  // The peer's queue pair was reused, so the connection that we know is stale. It is ended, too.
  Connection* stale = find(known->second);
  if (stale->state == State::established || stale->state == State::reply_sent) {
    start_disconnect(*stale, {}, arrival.now, out);
  } else if (stale->state == State::request_received) {
    end_rejected(*stale, RejectReason::stale_connection, {}, out);
  }
  return RejectReason::stale_connection;
}

/// The peer did not get our answer, or has none yet.
void ConnectionManager::on_repeated_request(Connection& connection, Effects& out) {
  ++counters_.duplicates;
  switch (connection.state) {
    case State::request_received:
      return send_delay(connection, kServiceTimeout, out);
    case State::reply_sent:
      out.push_back(connection.last);
      return;
    case State::refused:
      keep_no_longer(connection);  // It is the newest one again.
      keep(connection);
      out.push_back(connection.last);
      return;
    case State::time_wait:
      // IBA 12.9.8.3.1: the connection will never be made. If this REQ is only a late copy, the
      // peer ignores the REJ.
      return send_reject(connection, wire::CmAbout::req, RejectReason::stale_connection, {}, out);
    default:
      return;  // The answer was given meanwhile.
  }
}

Result<void> ConnectionManager::accept(ConnectionId id, const AcceptParameters& parameters,
                                       TimeNs now, Effects& out) {
  auto connection = find_in(id, State::request_received, "accept");
  if (!connection) return std::unexpected(std::move(connection).error());
  if (auto ok = check_private_data(parameters.private_data, kReplyPrivateBytes, "accept"); !ok) {
    return ok;
  }
  Connection& it = **connection;
  enter(it, State::reply_sent, out);
  note_taken(id);
  wire::CmRep rep = reply_of(parameters, it.transport);
  rep.local_id = static_cast<wire::CommunicationId>(id);
  rep.remote_id = it.remote_id;
  rep.local_ca_guid = settings_.node_guid;
  send(it, rep, out);
  await_answer(it, now);
  return {};
}

void ConnectionManager::on_message(const wire::CmRtu& rtu, const Arrival& arrival, Effects& out) {
  Connection* connection = find(rtu.remote_id, rtu.local_id, arrival);
  if (connection == nullptr || connection->state != State::reply_sent)
    return;  // Data was faster than the RTU, or the connection has ended.
  become_established(*connection, private_data_of(rtu.private_data), out);
}

Result<void> ConnectionManager::notify_established(ConnectionId id, TimeNs, Effects& out) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->released) {
    return refuse(EINVAL, "notify: the connection does not exist");
  }
  if (connection->state == State::reply_sent) become_established(*connection, {}, out);
  return {};
}

void ConnectionManager::become_established(Connection& connection, const PrivateData& private_data,
                                           Effects& out) {
  enter(connection, State::established, out);
  set_timer(connection, kNever);
  if (!connection.released) out.push_back(Established{connection.id, private_data});
}

}  // namespace verbatim::cm
