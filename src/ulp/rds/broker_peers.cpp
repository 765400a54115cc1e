// Connections of a broker.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "ulp/rds/broker.h"
#include "ulp/rds/wire/connect.h"

namespace verbatim::ulp::rds {
namespace {

using State = Peer::State;

/// As Linux waits, before it asks again: at random, and longer each time.
constexpr TimeNs kFirstBackOff = kMillisecond;
constexpr TimeNs kLongestBackOff = kSecond;

SocketAddress at_port(const SocketAddress& address, std::uint16_t port) {
  return address.with_port(port);
}

}  // namespace

const char* name_of(State state) {
  constexpr const char* kNames[] = {"down", "connecting", "accepting", "up", "ending"};
  return kNames[static_cast<std::size_t>(state)];
}

Peer* Broker::find(LinkId link) {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

Result<Peer*> Broker::peer_of(const Pair& pair) {
  const auto found = peers_.find(pair);
  if (found != peers_.end()) return found->second.get();
  if (peers_.size() >= options_.peers_max && !forget_one())
    return refuse(ENOBUFS, fmt::format("{} peers are the most", options_.peers_max));
  auto peer = std::make_unique<Peer>(pair, pool_, options_.first_sequence);
  return peers_.emplace(pair, std::move(peer)).first->second.get();
}

/// A peer that is not there, and with whom nothing is left to do.
bool Broker::forget_one() {
  const auto found = std::ranges::find_if(peers_, [](const auto& one) {
    const Peer& peer = *one.second;
    return peer.state == State::down && peer.connection.waiting() == 0 && peer.held_bytes == 0;
  });
  if (found == peers_.end()) return false;
  Peer* const peer = found->second.get();
  std::erase(dirty_, peer);
  for (auto& [id, socket] : sockets_) {
    for (Socket::Held& held : socket.held) {
      if (held.of == peer) held.of = nullptr;  // Empty messages.
    }
  }
  peers_.erase(found);
  return true;
}

void Broker::mark(Peer& peer) {
  if (!std::exchange(peer.is_dirty, true)) dirty_.push_back(&peer);
}

void Broker::begin(Peer& peer, TimeNs now) {
  peer.retry_at = kNever;
  const ConnectData data{.source = peer.pair.own,
                         .destination = peer.pair.peer,
                         .version = peer.pair.tos == 0 ? Version{3, 1} : Version{4, 1},
                         .tos = peer.pair.tos,
                         .acknowledged = peer.connection.received()};
  const auto link = outside_.connect(peer.pair, encode(data));
  if (!link) {
    peer.why = link.error().text;
    return retry_later(peer, now);
  }
  peer.state = State::connecting;
  peer.link = *link;
  links_[*link] = &peer;
}

void Broker::retry_later(Peer& peer, TimeNs now) {
  peer.back_off = std::clamp(2 * peer.back_off, kFirstBackOff, kLongestBackOff);
  peer.retry_at = now + random_() % peer.back_off;
  next_retry_ = std::min(next_retry_, peer.retry_at);
}

void Broker::on_time(TimeNs now) {
  if (now < next_retry_) return;
  next_retry_ = kNever;
  for (auto& [pair, peer] : peers_) {
    if (peer->retry_at <= now) {
      const bool gives_up = elapsed(peer->down_since, now) > options_.give_up_after;
      if (gives_up && !peer->connection.has_owner()) {
        counters_.given_up += peer->connection.waiting();
        peer->connection.drop();
        release(*peer);
        peer->retry_at = kNever;
      } else {
        begin(*peer, now);
      }
    }
    next_retry_ = std::min(next_retry_, peer->retry_at);
  }
}

void Broker::reject(LinkId link, const std::string& words) {
  ++counters_.refused;
  log(LogLevel::info, "{}", words);
  outside_.reject(link, encode_rejection());
}

void Broker::on_requested(LinkId link, const Meeting& meeting, TimeNs) {
  const auto asked = decode_connect({meeting.private_data.begin(), meeting.private_data.size()},
                                    meeting.peer.family());
  if (!asked) return reject(link, fmt::format("{}: {}", meeting.peer, words_of(asked.error())));
  const auto version = version_for(*asked);
  if (!version) {
    return reject(link, fmt::format("{} speaks RDS {}.{}, this node 3.1 and 4.1", meeting.peer,
                                    asked->version.major, asked->version.minor));
  }
  if (!same_ip(asked->source, meeting.peer) || !same_ip(asked->destination, meeting.own)) {
    return reject(link, fmt::format("{} asks for a connection of {} with {}", meeting.peer,
                                    asked->source.ip_text(), asked->destination.ip_text()));
  }
  const auto found = peer_of({asked->destination, asked->source, asked->tos});
  if (!found) return reject(link, fmt::format("{}: {}", meeting.peer, found.error().text));
  Peer& peer = **found;
  // Both sides ask at once: each refuses the other, and asks again after a random time. While this
  // side is connected, the peer has lost its queue pair: this side's ends, too.
  if (peer.state == State::up) end(peer, "the peer connects again");
  if (peer.state != State::down) return outside_.reject(link, encode_rejection());
  peer.state = State::accepting;
  peer.retry_at = kNever;
  peer.link = link;
  peer.acknowledged = asked->acknowledged;
  links_[link] = &peer;
  outside_.accept(link, encode({.source = peer.pair.own,
                                .destination = peer.pair.peer,
                                .version = *version,
                                .tos = peer.pair.tos,
                                .acknowledged = peer.connection.received()}));
}

void Broker::on_established(LinkId link, ByteSpan private_data, TimeNs) {
  Peer* const peer = find(link);
  if (peer == nullptr || (peer->state != State::connecting && peer->state != State::accepting))
    return;
  if (peer->state == State::connecting) {
    const auto answer = decode_connect(private_data, peer->pair.own.family());
    if (!answer || !version_for(*answer))
      return end(*peer, "the peer speaks another version of RDS");
    peer->acknowledged = answer->acknowledged;
  }
  peer->state = State::up;
  peer->was_up = true;
  peer->back_off = 0;
  ++peer->connects;
  peer->connection.on_established(peer->acknowledged);
  release(*peer);
  mark(*peer);
}

void Broker::end(Peer& peer, const char* words) {
  if (peer.state == State::down || peer.state == State::ending) return;
  peer.state = State::ending;
  outside_.disconnect(peer.link, words);
}

void Broker::on_end(LinkId link, const std::string& words, TimeNs now) {
  Peer* const peer = find(link);
  if (peer == nullptr) return;
  links_.erase(link);
  peer->state = State::down;
  if (std::exchange(peer->was_up, false)) peer->down_since = now;
  peer->why = words;
  peer->connection.on_cut();
  peer->map = {};  // The next queue pair brings it.
  if (std::exchange(peer->is_map_set, false)) show_congestion();
  on_uncongested(~std::uint64_t{0});
  release(*peer);
  if (peer->connection.waiting() > 0) retry_later(*peer, now);
}

void Broker::on_done(LinkId link, Tag tag) {
  Peer* const peer = find(link);
  if (peer == nullptr) return;
  peer->connection.on_done(tag);
  release(*peer);
  mark(*peer);
}

void Broker::on_failed(LinkId link, Tag tag, OperationStatus status) {
  Peer* const peer = find(link);
  if (peer == nullptr) return;
  peer->connection.on_failed(tag, status);
  release(*peer);
}

/// What the peer has acknowledged is its sender's room again.
void Broker::release(Peer& peer) {
  for (const EndedOperation& one : std::exchange(peer.connection.ended(), {})) {
    const Operation& operation = one.operation;
    outside_.on_operation(one.socket, operation, one.status);
    pool_.give_back(operation.local);
    Socket* const socket = one.socket == kNoSocket ? nullptr : find(one.socket);
    const bool tells = operation.tells_success ||
                       (operation.tells_errors && one.status != OperationStatus::success);
    if (socket != nullptr && tells)
      hand_over(one.socket, *socket, nullptr, {.notice = Notice{operation.token, one.status}});
  }
  for (const Outgoing& message : peer.connection.released()) {
    pool_.give_back(message.fragments);
    Socket* const socket = message.socket == kNoSocket ? nullptr : find(message.socket);
    if (socket == nullptr) continue;
    outside_.on_finished(message.socket);
    socket->send_bytes -= message.bytes;
    if (!socket->is_paused || socket->send_bytes >= socket->send_limit) continue;
    outside_.pause(message.socket, socket->is_paused = false);
    let_send();
  }
  peer.connection.released().clear();
}

void Broker::on_message(LinkId link, ByteSpan fragment, TimeNs) {
  Peer* const peer = find(link);
  if (peer == nullptr || peer->state == State::ending || peer->state == State::down) return;
  const auto arrival = peer->connection.on_message(fragment);
  release(*peer);
  mark(*peer);
  switch (arrival.kind) {
    case Connection::Arrival::Kind::nothing:
      return;
    case Connection::Arrival::Kind::fault:
      ++counters_.faults;
      return end(*peer, arrival.words);
    case Connection::Arrival::Kind::map:
      return on_map(*peer, arrival.bytes);
    case Connection::Arrival::Kind::message:
      if (!route(*peer, arrival)) return end(*peer, "programs do not read what the peer sends");
      peer->connection.take(arrival.header);
      ++peer->received;
  }
}

void Broker::on_map(Peer& peer, ByteSpan bytes) {
  std::uint64_t freed = 0;
  peer.map.assign(bytes, [&](std::uint16_t port) { freed |= std::uint64_t{1} << (port % 64); });
  peer.is_map_set = peer.map.any();
  show_congestion();
  if (freed != 0) on_uncongested(freed);
}

/// Returns false if there is no room for the message.
bool Broker::route(Peer& peer, const Connection::Arrival& arrival) {
  const Header& header = arrival.header;
  if (header.destination_port == 0) {
    if (header.source_port != 0) answer_ping(peer, header.source_port);
    return true;
  }
  const SocketId id = ports_.find(at_port(peer.pair.own, header.destination_port));
  if (id == kNoSocket) {
    ++counters_.no_socket;
    return true;
  }
  if (peer.held_bytes + arrival.bytes.size() > options_.held_bytes_max) return false;
  if (header.used) outside_.on_used(id, *header.used);
  hand_over(id, *find(id), &peer,
            {.from = at_port(peer.pair.peer, header.source_port),
             .bytes = header.bytes,
             .pieces = {&arrival.bytes, 1},
             .offered = header.offered,
             .used = header.used});
  return true;
}

/// An empty message from port 0. A peer that sends many pings and reads no answer gets none.
void Broker::answer_ping(Peer& peer, std::uint16_t port) {
  constexpr std::size_t kWaitingMax = 1024;
  ++counters_.pings;
  Slice slice;
  if (peer.connection.waiting() > kWaitingMax || !pool_.take({&slice, 1})) return;
  slice.bytes = Header::kSize;
  peer.connection.send({.destination_port = port, .fragments = {slice}});
  mark(peer);
}

void Broker::flush() {
  WorkList work;
  std::optional<Atomic> atomic;
  while (!dirty_.empty()) {
    Peer& peer = *dirty_.back();
    dirty_.pop_back();
    peer.is_dirty = false;
    if (peer.state != State::up) continue;
    do {
      work.clear();
      atomic = peer.connection.fill(work, map_of(peer.pair.own));
      if (!work.empty()) outside_.carry_out(peer.link, work);
      if (atomic) outside_.carry_out(peer.link, *atomic);
    } while (work.full() || atomic);
  }
}

}  // namespace verbatim::ulp::rds
