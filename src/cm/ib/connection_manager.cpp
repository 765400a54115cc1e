#include "cm/ib/connection_manager.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/assert.h"

namespace verbatim::cm {
namespace {

const char* name_of(State state) {
  switch (state) {
    case State::request_sent:
      return "waits for the peer's reply";
    case State::reply_received:
      return "has the peer's reply and is to be established";
    case State::request_received:
      return "is to be accepted or rejected";
    case State::reply_sent:
      return "is accepted and waits for the peer";
    case State::established:
      return "is established";
    case State::disconnect_sent:
      return "is being disconnected";
    case State::time_wait:
      return "is disconnected";
    case State::refused:
      return "is rejected";
    case State::resolve_sent:
      return "is a service resolution that waits for the peer";
    case State::resolve_received:
      return "is a service resolution to be answered";
    case State::resolve_answered:
      return "is an answered service resolution";
  }
  return "is in no known state";
}

}  // namespace

ConnectionManager::ConnectionManager(const Settings& settings)
    : settings_(settings),
      identifiers_(settings.slot, settings.seed),
      transaction_(settings.seed << 32),
      half_open_(settings.half_open_max) {}

Result<ListenerId> ConnectionManager::listen(const ListenAt& where) {
  auto listener = listeners_.add(where);
  if (listener) backlogs_.emplace(*listener, FairQueue(where.backlog));
  return listener;
}

void ConnectionManager::unlisten(ListenerId listener) {
  listeners_.remove(listener);
  backlogs_.erase(listener);
}

Connection* ConnectionManager::find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

Connection* ConnectionManager::find(wire::CommunicationId local, wire::CommunicationId remote,
                                    const Arrival& arrival) {
  Connection* connection = find(static_cast<ConnectionId>(local));
  // While our REQ is unanswered, the peer's id is not known.
  const bool fits = connection != nullptr &&
                    (connection->remote_id == remote || connection->state == State::request_sent);
  if (!fits) {
    ++counters_.unknown;
    return nullptr;
  }
  return is_from_peer(*connection, arrival) ? connection : nullptr;
}

/// A 32-bit id can be guessed, but an attacker cannot receive at the peer's address.
bool ConnectionManager::is_from_peer(const Connection& connection, const Arrival& arrival) {
  if (source_of(connection.path.remote) == source_of(arrival.reply_path.from)) return true;
  ++counters_.strangers;
  return false;
}

Result<Connection*> ConnectionManager::find_in(ConnectionId id, State state, const char* call) {
  Connection* connection = find(id);
  if (connection == nullptr || connection->released) {
    return refuse(EINVAL, fmt::format("{}: connection {:#x} does not exist", call, raw(id)));
  }
  if (connection->state != state) {
    return refuse(
        EINVAL, fmt::format("{}: connection {:#x} {}", call, raw(id), name_of(connection->state)));
  }
  return connection;
}

Connection* ConnectionManager::create(State state, const Path& path, Effects& out) {
  if (connections_.size() >= settings_.connections_max) {
    if (remembered_.empty() && ending_.empty()) return nullptr;
    drop_oldest(remembered_.empty() ? ending_ : remembered_, out);
  }
  ConnectionId id = identifiers_.next();
  while (connections_.contains(id)) id = identifiers_.next();
  Connection& connection = connections_[id];
  connection.id = id;
  connection.state = state;
  connection.path = path;
  keep(connection);
  return &connection;
}

void ConnectionManager::erase(Connection& connection) {
  keep_no_longer(connection);
  set_timer(connection, kNever);
  if (const auto known = peers_.find(connection.peer);
      known != peers_.end() && known->second == connection.id) {
    peers_.erase(known);
  }
  forget_peer_queue_pair(connection);
  connections_.erase(connection.id);
}

void ConnectionManager::set_peer(Connection& connection, PeerKey key) {
  connection.remote_id = key.id;
  connection.peer = key;
  peers_[key] = connection.id;
}

void ConnectionManager::set_peer_queue_pair(Connection& connection, PeerQueuePair key) {
  if (key.qpn == 0) return;  // None: the user has no queue pair.
  connection.peer_queue_pair = key;
  peer_queue_pairs_[key] = connection.id;
}

void ConnectionManager::forget_peer_queue_pair(Connection& connection) {
  const auto known = peer_queue_pairs_.find(connection.peer_queue_pair);
  if (known != peer_queue_pairs_.end() && known->second == connection.id) {
    peer_queue_pairs_.erase(known);
  }
  connection.peer_queue_pair = {};
}

void ConnectionManager::send(Connection& connection, const wire::CmMessage& message, Effects& out) {
  SendMad& mad = connection.last;
  mad.source = connection.path.local;
  mad.destination = connection.path.remote;
  encode(wire::CmMad{.transaction = connection.transaction, .message = message}, mad.bytes);
  out.push_back(mad);
}

void ConnectionManager::await_answer(Connection& connection, TimeNs now) {
  connection.retries_left = connection.retries;
  set_timer(connection, now + connection.repeat_after);
}

void ConnectionManager::set_timer(Connection& connection, TimeNs at) {
  timers_.set(connection.id, connection.timer, at);
}

void ConnectionManager::on_mad(ByteSpan mad, const verbatim::Path& from, const SocketAddress& to,
                               TimeNs now, Effects& out) {
  const auto decoded = wire::decode_cm(mad);
  if (!decoded) {
    ++counters_.malformed;
    return;
  }
  const Arrival arrival{{from, to, decoded->transaction}, now};
  std::visit([&](const auto& message) { on_message(message, arrival, out); }, decoded->message);
}

void ConnectionManager::on_timeout(TimeNs now, Effects& out) {
  while (timers_.deadline() <= now) {
    Connection* connection = find(timers_.first());
    VERBATIM_ASSERT(connection != nullptr);
    set_timer(*connection, kNever);
    on_timer(*connection, now, out);
  }
}

void ConnectionManager::on_timer(Connection& connection, TimeNs now, Effects& out) {
  switch (connection.state) {
    case State::request_sent:
    case State::reply_sent:
    case State::disconnect_sent:
    case State::resolve_sent:
      if (connection.retries_left == 0) return give_up(connection, now, out);
      --connection.retries_left;
      ++counters_.repeated;
      out.push_back(connection.last);
      return set_timer(connection, now + connection.repeat_after);
    case State::time_wait:
      if (!connection.released) out.push_back(TimeWaitExit{connection.id});
      return erase(connection);
    case State::refused:
    case State::resolve_answered:
      return erase(connection);
    case State::reply_received:
    case State::request_received:
    case State::resolve_received:
    case State::established:
      return;  // These wait for the peer's or the user's next step.
  }
}

void ConnectionManager::give_up(Connection& connection, TimeNs now, Effects& out) {
  // IBA 12.9.8.7: the DREQ was not answered; the connection ends as if it had been.
  if (connection.state == State::disconnect_sent) return finish(connection, {}, now, out);
  if (connection.state == State::request_sent) {
    send_reject(connection, wire::CmAbout::req, RejectReason::timeout, {}, out);
  } else if (connection.state == State::reply_sent) {
    send_reject(connection, wire::CmAbout::rep, RejectReason::timeout, {}, out);
  }
  if (!connection.released) out.push_back(Unreachable{connection.id});
  erase(connection);
}

void ConnectionManager::end_rejected(Connection& connection, RejectReason reason,
                                     const PrivateData& private_data, Effects& out) {
  if (!connection.released) out.push_back(Rejected{connection.id, reason, private_data});
  erase(connection);
}

}  // namespace verbatim::cm
