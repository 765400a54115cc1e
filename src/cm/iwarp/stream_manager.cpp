#include "cm/iwarp/stream_manager.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbatim::cm {
namespace {

/// As much as an event of librdmacm can carry.
PrivateData private_data_of(ByteSpan bytes) {
  PrivateData data;
  for (const std::byte byte : bytes.first(std::min(bytes.size(), PrivateData::capacity()))) {
    data.push(byte);
  }
  return data;
}

std::uint8_t depth_of(std::uint16_t depth) {
  return static_cast<std::uint8_t>(std::min<std::uint16_t>(depth, 0xff));
}

}  // namespace

Result<StreamManager::Connection*> StreamManager::find(ConnectionId id, State state) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return refuse(EINVAL, "there is no such connection");
  if (found->second.state != state) {
    return refuse(EINVAL, "the connection is not in a state for this");
  }
  return &found->second;
}

void StreamManager::set_deadline(Connections::value_type& connection, TimeNs at) {
  timers_.set(connection.first, connection.second.at, at);
}

ConnectionId StreamManager::add(Connection connection, TimeNs deadline) {
  ConnectionId id = identifiers_.next();
  while (connections_.contains(id)) id = identifiers_.next();
  const auto added = connections_.emplace(id, std::move(connection)).first;
  set_deadline(*added, deadline);
  return id;
}

/// Also removes the socket.
void StreamManager::forget(ConnectionId id, StreamEffects& out, bool is_turned_out) {
  const auto found = connections_.find(id);
  if (found->second.state == State::requested) --requests_;
  strangers_.remove(id);
  set_deadline(*found, kNever);
  connections_.erase(found);
  out.emplace_back(CloseStream{id, is_turned_out});
}

void StreamManager::fail(ConnectionId id, int error, StreamEffects& out, ByteSpan private_data) {
  const PrivateData data = private_data_of(private_data);
  forget(id, out);
  out.emplace_back(StreamFailed{id, error, data});
}

MpaOffer StreamManager::offer_of(const StreamOffer& offer) const {
  MpaOffer own = options_;
  own.inbound_reads = offer.inbound_reads;
  own.outbound_reads = offer.outbound_reads;
  return own;
}

Result<ConnectionId> StreamManager::connect(const SocketAddress& local, const SocketAddress& remote,
                                            const StreamOffer& offer, TimeNs now,
                                            StreamEffects& out) {
  if (connections_.size() >= kConnectionsMax) return refuse(ENOMEM, "too many connections");
  Connection connection{.state = State::connecting,
                        .ends = {.source = local, .destination = remote},
                        .offer = offer_of(offer),
                        .private_data = {offer.private_data.begin(), offer.private_data.end()}};
  if (connection.private_data.size() > mpa_private_data_max(connection.offer.revision)) {
    return refuse(EINVAL, fmt::format("{} bytes of private data: MPA carries {}",
                                      connection.private_data.size(),
                                      mpa_private_data_max(connection.offer.revision)));
  }
  connection.gives_up_at = now + kMoment;
  const ConnectionId id = add(std::move(connection), kNever);
  open(id, out);
  return id;
}

/// The kernel's own time-out ends a connection attempt.
void StreamManager::open(ConnectionId id, StreamEffects& out) {
  auto& entry = *connections_.find(id);
  entry.second.state = State::connecting;
  set_deadline(entry, kNever);
  out.emplace_back(OpenStream{id, entry.second.ends.source, entry.second.ends.destination});
}

/// The peer's kernel refused it, before any MPA message.
void StreamManager::on_refusal(ConnectionId id, int error, TimeNs now, StreamEffects& out) {
  auto& entry = *connections_.find(id);
  if (now >= entry.second.gives_up_at) return fail(id, error, out);
  entry.second.state = State::refused;
  set_deadline(entry, now + kTryAgain);
}

void StreamManager::on_connected(ConnectionId id, TimeNs now, StreamEffects& out) {
  if (find(id, State::connecting)) ask(id, now, out);
}

void StreamManager::ask(ConnectionId id, TimeNs now, StreamEffects& out) {
  auto& entry = *connections_.find(id);
  Connection& connection = entry.second;
  connection.state = State::awaits_reply;
  connection.received.clear();
  set_deadline(entry, now + kTimeout);
  out.emplace_back(SendBytes{id, compose_mpa_request(connection.offer, connection.private_data)});
}

std::optional<ConnectionId> StreamManager::on_accepted(ListenerId listener, const IpEndpoints& ends,
                                                       bool few_are_left, TimeNs now,
                                                       StreamEffects& out) {
  const std::size_t room =
      std::min(kStrangersMax, descriptors_ / (few_are_left ? kPartOfLast : kPart));
  while (const auto surplus = strangers_.surplus(room, listener, ends.source)) {
    forget(*surplus, out, true);
  }
  if (connections_.size() >= kConnectionsMax) return std::nullopt;
  const ConnectionId id =
      add({.state = State::awaits_request, .listener = listener, .ends = ends}, now + kTimeout);
  strangers_.add(id, listener, ends.source);
  return id;
}

bool StreamManager::make_room(StreamEffects& out) {
  const auto oldest = strangers_.oldest();
  if (oldest) forget(*oldest, out, true);
  return oldest.has_value();
}

std::size_t StreamManager::bytes_wanted(ConnectionId id) const {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return 0;
  const State state = found->second.state;
  const ByteSpan received = found->second.received;
  if (state != State::awaits_request && state != State::awaits_reply) return 0;
  if (received.size() < wire::MpaFrame::kSize) return wire::MpaFrame::kSize - received.size();
  const auto frame = wire::decode_mpa_frame(received.first<wire::MpaFrame::kSize>());
  return frame ? wire::MpaFrame::kSize + frame->private_data_bytes - received.size() : 0;
}

void StreamManager::on_bytes(ConnectionId id, ByteSpan bytes, StreamEffects& out) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  const bool is_request = connection.state == State::awaits_request;
  if (!is_request && connection.state != State::awaits_reply) return;
  connection.received.insert(connection.received.end(), bytes.begin(), bytes.end());
  const auto message = parse_mpa(connection.received);
  const bool is_wrong = !message || (*message && (*message)->frame.is_reply == is_request);
  if (is_wrong) return is_request ? forget(id, out) : fail(id, EPROTO, out);
  if (!*message) return;
  is_request ? on_request(id, **message, out) : on_reply(id, **message, out);
}

void StreamManager::on_request(ConnectionId id, const MpaMessage& message, StreamEffects& out) {
  auto& entry = *connections_.find(id);
  Connection& connection = entry.second;
  if (requests_ >= descriptors_ / kPart) return forget(id, out, true);
  connection.state = State::requested;
  ++requests_;
  strangers_.remove(id);
  set_deadline(entry, kNever);
  StreamRequest request{.connection = id,
                        .listener = connection.listener,
                        .ends = connection.ends,
                        .inbound_reads = 0xff,
                        .outbound_reads = 0xff,
                        .private_data = private_data_of(message.private_data)};
  if (message.enhanced) {
    request.inbound_reads = depth_of(message.enhanced->outbound_reads);
    request.outbound_reads = depth_of(message.enhanced->inbound_reads);
  }
  out.emplace_back(request);
}

void StreamManager::on_reply(ConnectionId id, const MpaMessage& message, StreamEffects& out) {
  auto& entry = *connections_.find(id);
  Connection& connection = entry.second;
  if (message.frame.is_rejection) {
    // RFC 6581, section 10: a peer with revision 1 only says so, and the request is repeated once
    // with it.
    if (message.frame.revision >= connection.offer.revision) {
      return fail(id, ECONNREFUSED, out, message.private_data);
    }
    connection.offer.revision = message.frame.revision;
    return open(id, out);
  }
  const auto agreement = negotiate_mpa(connection.offer, message);
  if (!agreement) return fail(id, EPROTO, out);
  connection.agreement = *agreement;
  connection.state = State::replied;
  set_deadline(entry, kNever);
  out.emplace_back(StreamReply{.connection = id,
                               .inbound_reads = depth_of(agreement->inbound_reads),
                               .outbound_reads = depth_of(agreement->outbound_reads),
                               .private_data = private_data_of(message.private_data)});
}

Result<void> StreamManager::establish(ConnectionId id, StreamEffects& out) {
  const auto connection = find(id, State::replied);
  if (!connection) return std::unexpected(connection.error());
  (*connection)->state = State::established;
  out.emplace_back(HandOver{id, (*connection)->agreement, true});
  return {};
}

Result<void> StreamManager::accept(ConnectionId id, const StreamOffer& offer, StreamEffects& out) {
  const auto found = find(id, State::requested);
  if (!found) return std::unexpected(found.error());
  Connection& connection = **found;
  if (connection.has_ended) return refuse(ECONNRESET, "the peer has closed the connection");
  const auto request = parse_mpa(connection.received);
  auto accepted = accept_mpa(**request, offer_of(offer), offer.private_data);
  if (!accepted) return refuse(EPROTO, accepted.error());
  connection.state = State::established;
  --requests_;
  out.emplace_back(SendBytes{id, std::move(accepted->reply)});
  out.emplace_back(HandOver{id, accepted->agreement, false});
  return {};
}

Result<void> StreamManager::reject(ConnectionId id, ByteSpan private_data, TimeNs now,
                                   StreamEffects& out) {
  const auto connection = find(id, State::requested);
  if (!connection) return std::unexpected(connection.error());
  turn_away(id, private_data, now, out);
  return {};
}

/// A peer may lose a Reply if the connection ends with it, as Linux's siw (6.1) does. So the peer
/// closes first.
void StreamManager::turn_away(ConnectionId id, ByteSpan private_data, TimeNs now,
                              StreamEffects& out) {
  auto& entry = *connections_.find(id);
  Connection& connection = entry.second;
  if (connection.has_ended) return forget(id, out);
  out.emplace_back(SendBytes{id, refuse_mpa(**parse_mpa(connection.received), private_data)});
  connection.state = State::rejected;
  --requests_;
  strangers_.add(id, connection.listener, connection.ends.source);
  set_deadline(entry, now + kTimeout);
}

Result<void> StreamManager::disconnect(ConnectionId id, TimeNs now, StreamEffects& out) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return {};
  Connection& connection = found->second;
  if (connection.state == State::ending) return {};
  if (connection.state != State::established) {
    return refuse(EINVAL, "the connection does not stand");
  }
  connection.state = State::ending;
  connection.gives_up_at = now + kTimeout;
  end_own_side(id, now, out);
  return {};
}

void StreamManager::end_own_side(ConnectionId id, TimeNs now, StreamEffects& out) {
  set_deadline(*connections_.find(id), now + kTryAgain);
  out.emplace_back(EndStream{id});
}

void StreamManager::on_own_end(ConnectionId id, StreamEffects& out) {
  if (!find(id, State::ending)) return;
  forget(id, out);
  out.emplace_back(StreamEnded{id});
}

void StreamManager::release(ConnectionId id, TimeNs now, StreamEffects& out) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.state == State::rejected) return;
  if (found->second.state == State::requested) return turn_away(id, {}, now, out);
  forget(id, out);
}

void StreamManager::on_end(ConnectionId id, int error, TimeNs now, StreamEffects& out) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  switch (found->second.state) {
    case State::connecting:
      if (error == ECONNREFUSED) return on_refusal(id, error, now, out);
      return fail(id, error == 0 ? ECONNRESET : error, out);
    case State::refused:
      return open(id, out);
    case State::awaits_reply:
      if (error == ETIMEDOUT) return fail(id, error, out);
      return on_refusal(id, ECONNREFUSED, now, out);
    case State::replied:
      return;  // The queue pair sees the end, after the data before it.
    case State::awaits_request:
    case State::rejected:
      return forget(id, out);
    case State::requested:
      found->second.has_ended = true;
      return;
    case State::ending:
      if (error == ETIMEDOUT && now < found->second.gives_up_at) {
        return end_own_side(id, now, out);
      }
      [[fallthrough]];
    case State::established:
      forget(id, out);
      out.emplace_back(StreamEnded{id});
  }
}

void StreamManager::on_timeout(TimeNs now, StreamEffects& out) {
  while (timers_.deadline() <= now) on_end(timers_.first(), ETIMEDOUT, now, out);
}

}  // namespace verbatim::cm
