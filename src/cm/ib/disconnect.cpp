// The end of a connection: DREQ, DREP, TimeWait (IBA 12.9.6, 12.9.7), and `release`.
#include "cm/ib/compose.h"
#include "cm/ib/connection_manager.h"

namespace verbatim::cm {

Result<void> ConnectionManager::disconnect(ConnectionId id, ByteSpan private_data, TimeNs now,
                                           Effects& out) {
  if (auto ok = check_private_data(private_data, kDisconnectPrivateBytes, "disconnect"); !ok) {
    return ok;
  }
  Connection* connection = find(id);
  const bool over = connection != nullptr && (connection->state == State::disconnect_sent ||
                                              connection->state == State::time_wait);
  if (over && !connection->released) return {};
  const bool waiting = connection != nullptr && connection->state == State::reply_sent;
  auto found = find_in(id, waiting ? State::reply_sent : State::established, "disconnect");
  if (!found) return std::unexpected(std::move(found).error());
  start_disconnect(*connection, private_data, now, out);
  return {};
}

void ConnectionManager::start_disconnect(Connection& connection, ByteSpan private_data, TimeNs now,
                                         Effects& out) {
  enter(connection, State::disconnect_sent, out);
  forget_peer_queue_pair(connection);
  wire::CmDreq dreq{.local_id = static_cast<wire::CommunicationId>(connection.id),
                    .remote_id = connection.remote_id,
                    .remote_qpn = connection.remote_qpn};
  put(dreq.private_data, private_data);
  send(connection, dreq, out);
  await_answer(connection, now);
}

void ConnectionManager::on_message(const wire::CmDreq& dreq, const Arrival& arrival, Effects& out) {
  Connection* connection = find(dreq.remote_id, dreq.local_id, arrival);
  // IBA 12.9.8.6: a DREQ of an unknown connection is answered, too.
  out.push_back(confirm_disconnect(arrival.reply_path, dreq));
  if (connection == nullptr) return;
  switch (connection->state) {
    case State::request_sent:  // The REP was lost, and the peer has timed out.
      return end_rejected(*connection, RejectReason::consumer, {}, out);
    case State::reply_received:
    case State::reply_sent:
    case State::established:
    case State::disconnect_sent:  // Both sides disconnect at the same time.
      return finish(*connection, private_data_of(dreq.private_data), arrival.now, out);
    default:
      return;
  }
}

void ConnectionManager::on_message(const wire::CmDrep& drep, const Arrival& arrival, Effects& out) {
  Connection* connection = find(drep.remote_id, drep.local_id, arrival);
  if (connection == nullptr || connection->state != State::disconnect_sent) return;
  finish(*connection, private_data_of(drep.private_data), arrival.now, out);
}

void ConnectionManager::finish(Connection& connection, const PrivateData& private_data, TimeNs now,
                               Effects& out) {
  if (!connection.released) out.push_back(Disconnected{connection.id, private_data});
  enter(connection, State::time_wait, out);
  forget_peer_queue_pair(connection);
  // The peer chooses this time; without the limit, up to 2.4 hours.
  set_timer(connection, now + wire::cm_time_ns(within_reason(connection.path.ack_timeout)));
}

void ConnectionManager::release(ConnectionId id, TimeNs now, Effects& out) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->released) return;
  connection->released = true;
  switch (connection->state) {
    case State::request_sent:
      send_reject(*connection, wire::CmAbout::req, RejectReason::timeout, {}, out);
      return erase(*connection);
    case State::reply_received:
    case State::request_received:
      return refuse_and_remember(*connection, RejectReason::consumer, {}, now, out);
    case State::reply_sent:
    case State::established:
      return start_disconnect(*connection, {}, now, out);
    case State::resolve_sent:
      return erase(*connection);
    case State::resolve_received:
      return send_answer(*connection, {.status = SidrStatus::rejected}, now, out);
    case State::disconnect_sent:
    case State::time_wait:
    case State::refused:
    case State::resolve_answered:
      return;  // The timer ends it.
  }
}

}  // namespace verbatim::cm
