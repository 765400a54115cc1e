// REJ and MRA in both directions; LAP is always refused (IBA 12.6.6, 12.6.7, 12.8).
#include "cm/ib/compose.h"
#include "cm/ib/connection_manager.h"

namespace verbatim::cm {
namespace {

/// IBA table 109: a REJ for a time-out identifies its sender, because the receiver may not know the
/// id.
void put_guid(wire::CmRej& rej, std::uint64_t guid) {
  store_be(rej.info.data(), guid);
  rej.info_length = sizeof guid;
}

}  // namespace

void ConnectionManager::send_reject(Connection& connection, wire::CmAbout about,
                                    RejectReason reason, ByteSpan private_data, Effects& out) {
  wire::CmRej rej{.local_id = static_cast<wire::CommunicationId>(connection.id),
                  .remote_id = connection.remote_id,
                  .rejected = about,
                  .reason = reason};
  if (reason == RejectReason::timeout) put_guid(rej, settings_.node_guid);
  put(rej.private_data, private_data);
  send(connection, rej, out);
}

Result<void> ConnectionManager::reject(ConnectionId id, RejectReason reason, ByteSpan private_data,
                                       TimeNs now, Effects& out) {
  Connection* connection = find(id);
  const bool answering = connection != nullptr && connection->state == State::reply_received;
  auto found = find_in(id, answering ? State::reply_received : State::request_received, "reject");
  if (!found) return std::unexpected(std::move(found).error());
  if (auto ok = check_private_data(private_data, kRejectPrivateBytes, "reject"); !ok) return ok;
  refuse_and_remember(*connection, reason, private_data, now, out);
  return {};
}

void ConnectionManager::refuse_and_remember(Connection& connection, RejectReason reason,
                                            ByteSpan private_data, TimeNs now, Effects& out) {
  const auto about = connection.active ? wire::CmAbout::rep : wire::CmAbout::req;
  send_reject(connection, about, reason, private_data, out);
  enter(connection, State::refused, out);
  connection.released = true;
  forget_peer_queue_pair(connection);
  set_timer(connection, now + connection.remember);
}

/// Finds the connection that a REJ is about. The sender of a REJ for a timed-out REQ may not know
/// our id; then its own id and GUID identify the connection.
Connection* ConnectionManager::find_rejected(const wire::CmRej& rej, const Arrival& arrival) {
  if (rej.remote_id != wire::CommunicationId{}) {
    return find(rej.remote_id, rej.local_id, arrival);
  }
  if (rej.reason == RejectReason::timeout && rej.info_length >= sizeof(std::uint64_t)) {
    const auto known = peers_.find({source_of(arrival.reply_path.from), rej.local_id,
                                    load_be<std::uint64_t>(rej.info.data())});
    if (known != peers_.end()) return find(known->second);
  }
  ++counters_.unknown;
  return nullptr;
}

void ConnectionManager::on_message(const wire::CmRej& rej, const Arrival& arrival, Effects& out) {
  Connection* connection = find_rejected(rej, arrival);
  if (connection == nullptr) return;
  switch (connection->state) {
    case State::request_sent:
      if (rej.reason == RejectReason::stale_connection && !connection->stale_once) {
        // The peer now ends the earlier connection that it had for our queue pair number. The REQ
        // is sent again a little later.
        connection->stale_once = true;
        return set_timer(*connection, arrival.now + connection->repeat_after / 8);
      }
      [[fallthrough]];
    case State::reply_received:
    case State::request_received:
    case State::reply_sent:
      return end_rejected(*connection, rej.reason, private_data_of(rej.private_data), out);
    case State::established:
    case State::disconnect_sent:
      return finish(*connection, {}, arrival.now, out);
    default:
      return;  // It has ended already.
  }
}

Result<void> ConnectionManager::delay(ConnectionId id, std::uint8_t service_timeout, TimeNs,
                                      Effects& out) {
  Connection* connection = find(id);
  const bool answering = connection != nullptr && connection->state == State::reply_received;
  auto found = find_in(id, answering ? State::reply_received : State::request_received, "delay");
  if (!found) return std::unexpected(std::move(found).error());
  send_delay(*connection, service_timeout, out);
  return {};
}

void ConnectionManager::send_delay(Connection& connection, std::uint8_t service_timeout,
                                   Effects& out) {
  const auto about = connection.active ? wire::CmAbout::rep : wire::CmAbout::req;
  connection.has_delayed = true;
  send(connection,
       wire::CmMra{.local_id = static_cast<wire::CommunicationId>(connection.id),
                   .remote_id = connection.remote_id,
                   .acknowledged = about,
                   .service_timeout = service_timeout},
       out);
}

void ConnectionManager::on_message(const wire::CmMra& mra, const Arrival& arrival, Effects&) {
  Connection* connection = find(mra.remote_id, mra.local_id, arrival);
  if (connection == nullptr) return;
  const bool fits =
      (connection->state == State::request_sent && mra.acknowledged == wire::CmAbout::req) ||
      (connection->state == State::reply_sent && mra.acknowledged == wire::CmAbout::rep);
  if (!fits) return;
  // IBA 12.9.8.5: waits that long for the answer, then repeats the message again.
  set_timer(*connection,
            arrival.now + connection->repeat_after + message_timeout_ns(mra.service_timeout));
}

void ConnectionManager::on_message(const wire::CmLap& lap, const Arrival& arrival, Effects& out) {
  Connection* connection = find(lap.remote_id, lap.local_id, arrival);
  if (connection == nullptr || connection->state != State::established) return;
  out.push_back(answer_to(arrival.reply_path,
                          wire::CmApr{.local_id = lap.remote_id,
                                      .remote_id = lap.local_id,
                                      .status = wire::AlternatePathStatus::not_supported}));
}

/// Ignored: we never send a LAP.
void ConnectionManager::on_message(const wire::CmApr&, const Arrival&, Effects&) {
  ++counters_.unknown;
}

}  // namespace verbatim::cm
