// Bounds what peers can make us keep: half-open connections by source, the others by age.
#include "cm/ib/connection_manager.h"

namespace verbatim::cm {

void ConnectionManager::enter(Connection& connection, State state, Effects& out) {
  const bool is_kept_alike = kept_in(connection.state) == kept_in(state);
  if (!is_kept_alike) keep_no_longer(connection);
  connection.state = state;
  if (is_kept_alike) return;
  keep(connection);
  if (remembered_.size() > settings_.remembered_max) drop_oldest(remembered_, out);
  if (ending_.size() > settings_.ending_max) drop_oldest(ending_, out);
}

void ConnectionManager::keep(Connection& connection) {
  connection.since = ++serial_;
  switch (kept_in(connection.state)) {
    case Kept::freely:
      return;
    case Kept::half_open:
      return half_open_.add(source_of(connection.path.remote), connection.since, connection.id);
    case Kept::remembered:
      remembered_.emplace(connection.since, connection.id);
      return;
    case Kept::ending:
      ending_.emplace(connection.since, connection.id);
      return;
  }
}

void ConnectionManager::keep_no_longer(Connection& connection) {
  note_taken(connection.id);
  half_open_.remove(source_of(connection.path.remote), connection.since);
  remembered_.erase(connection.since);
  ending_.erase(connection.since);
}

void ConnectionManager::wait_at(Connection& connection, ListenerId listener) {
  connection.waits_at = listener;
  backlogs_.at(listener).add(source_of(connection.path.remote), connection.since, connection.id);
}

void ConnectionManager::note_taken(ConnectionId id) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->waits_at == ListenerId{}) return;
  if (const auto found = backlogs_.find(connection->waits_at); found != backlogs_.end()) {
    found->second.remove(source_of(connection->path.remote), connection->since);
  }
  connection->waits_at = {};
}

/// The peer finds out by itself: a repeated message counts as new, or as unknown.
void ConnectionManager::drop_oldest(std::map<std::uint64_t, ConnectionId>& kept, Effects& out) {
  Connection& connection = *find(kept.begin()->second);
  const bool is_told = kept_in(connection.state) == Kept::ending && !connection.released;
  if (is_told && connection.state == State::disconnect_sent) {
    out.push_back(Disconnected{connection.id, {}});
  }
  if (is_told) out.push_back(TimeWaitExit{connection.id});
  erase(connection);
}

/// Returns true if there is room for a request of this source; another source's request may be
/// dropped for it.
bool ConnectionManager::admit(const Source& source, ListenerId listener, Effects& out) {
  const FairQueue& backlog = backlogs_.at(listener);
  const bool has_room = half_open_.size_of(source) < settings_.half_open_of_source_max &&
                        make_room(backlog, source, out) && make_room(half_open_, source, out);
  if (!has_room) ++counters_.turned_away;
  return has_room;
}

bool ConnectionManager::make_room(const FairQueue& queue, const Source& source, Effects& out) {
  if (!queue.is_full()) return true;
  const auto displaced = queue.displaced_by(source);
  if (displaced) displace(*find(*displaced), out);
  return displaced.has_value();
}

/// Drops it silently, so that the peer asks again; but sends a REJ if an MRA has told the peer to
/// wait long.
void ConnectionManager::displace(Connection& connection, Effects& out) {
  ++counters_.displaced;
  if (connection.state == State::reply_sent) {
    send_reject(connection, wire::CmAbout::rep, RejectReason::no_resources, {}, out);
  } else if (connection.has_delayed) {
    send_reject(connection, wire::CmAbout::req, RejectReason::no_resources, {}, out);
  }
  end_rejected(connection, RejectReason::no_resources, {}, out);
}

}  // namespace verbatim::cm
