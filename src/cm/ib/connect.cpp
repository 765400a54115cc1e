// The active side of a connection: REQ out, REP in, RTU out (IBA 12.9.5, figure 134).
#include "cm/ib/compose.h"
#include "cm/ib/connection_manager.h"

namespace verbatim::cm {

Result<ConnectionId> ConnectionManager::connect(const ConnectParameters& parameters, TimeNs now,
                                                Effects& out) {
  const bool with_header = !parameters.ends.empty();
  const std::size_t room = with_header ? kIpRequestPrivateBytes : kRequestPrivateBytes;
  if (auto ok = check_private_data(parameters.private_data, room, "connect"); !ok) {
    return std::unexpected(std::move(ok).error());
  }
  if (auto ok = check_endpoints(parameters.ends, "connect"); !ok) {
    return std::unexpected(std::move(ok).error());
  }
  Connection* connection = create(State::request_sent, parameters.path, out);
  if (connection == nullptr) return refuse(ENOMEM, "connect: too many connections");
  connection->active = true;
  connection->transaction = next_transaction();
  connection->service = parameters.service;
  connection->transport = parameters.transport;
  connection->set_retry(parameters.retry);

  wire::CmReq req = request_of(parameters);
  req.local_id = static_cast<wire::CommunicationId>(connection->id);
  req.local_ca_guid = settings_.node_guid;
  send(*connection, req, out);
  await_answer(*connection, now);
  return connection->id;
}

void ConnectionManager::on_message(const wire::CmRep& rep, const Arrival& arrival, Effects& out) {
  Connection* connection = find(rep.remote_id, rep.local_id, arrival);
  if (connection == nullptr || !connection->active) {
    // We gave up or never asked: the peer must learn that there is no connection.
    out.push_back(refuse_reply(arrival.reply_path, rep, RejectReason::invalid_communication_id));
    return;
  }
  if (connection->state != State::request_sent) return on_repeated_reply(*connection, out);

  const QueuePairOffer peer = offer_of(rep, connection->transport);
  const Source source = source_of(arrival.reply_path.from);
  const PeerQueuePair queue_pair{source, rep.local_ca_guid, peer.qpn.value()};
  set_peer(*connection, {source, rep.local_id, rep.local_ca_guid});
  if (peer_queue_pairs_.contains(queue_pair)) {
    // IBA 12.9.8.3.1: the peer's queue pair already has a connection in our tables.
    send_reject(*connection, wire::CmAbout::rep, RejectReason::stale_connection, {}, out);
    return end_rejected(*connection, RejectReason::stale_connection, {}, out);
  }
  set_peer_queue_pair(*connection, queue_pair);
  enter(*connection, State::reply_received, out);
  connection->remote_qpn = peer.qpn;
  set_timer(*connection, kNever);
  out.push_back(ConnectResponse{.connection = connection->id,
                                .peer = peer,
                                .target_ack_delay = rep.target_ack_delay,
                                .private_data = private_data_of(rep.private_data)});
}

void ConnectionManager::on_repeated_reply(Connection& connection, Effects& out) {
  ++counters_.duplicates;
  switch (connection.state) {
    case State::established:  // The RTU was lost.
    case State::refused:      // The REJ was lost.
      out.push_back(connection.last);
      return;
    case State::reply_received:
      return send_delay(connection, kServiceTimeout, out);
    default:
      return;  // A DREQ is in flight or answered, which is enough.
  }
}

Result<void> ConnectionManager::establish(ConnectionId id, ByteSpan private_data, TimeNs,
                                          Effects& out) {
  auto connection = find_in(id, State::reply_received, "establish");
  if (!connection) return std::unexpected(std::move(connection).error());
  if (auto ok = check_private_data(private_data, wire::CmRtu::kPrivateDataBytes, "establish");
      !ok) {
    return ok;
  }
  Connection& it = **connection;
  enter(it, State::established, out);
  wire::CmRtu rtu{.local_id = static_cast<wire::CommunicationId>(id), .remote_id = it.remote_id};
  put(rtu.private_data, private_data);
  send(it, rtu, out);
  return {};
}

}  // namespace verbatim::cm
