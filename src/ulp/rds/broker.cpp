// Sockets of programs.
#include "ulp/rds/broker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::rds {
namespace {

SocketAddress without_port(const SocketAddress& address) { return address.with_port(0); }

std::uint64_t monitor_bit(std::uint16_t port) { return std::uint64_t{1} << (port % 64); }

}  // namespace

Broker::Broker(Outside& outside, Fragments& pool, const Options& options)
    : outside_(outside),
      pool_(pool),
      options_(options),
      random_(options.seed),
      ports_(static_cast<std::uint16_t>(random_())) {}

Broker::Socket* Broker::find(SocketId socket) {
  const auto found = sockets_.find(socket);
  return found == sockets_.end() ? nullptr : &found->second;
}

Result<void> Broker::open(SocketId socket) {
  if (sockets_.size() >= options_.sockets_max)
    return refuse(ENOBUFS, fmt::format("{} RDS sockets are the most", options_.sockets_max));
  sockets_.try_emplace(socket);
  return {};
}

void Broker::close(SocketId id) {
  Socket* const socket = find(id);
  if (socket == nullptr) return;
  if (!socket->own.empty()) ports_.unbind(socket->own);
  for (const Socket::Held& held : socket->held) {
    if (held.of != nullptr) held.of->held_bytes -= held.bytes.size();
  }
  if (socket->is_congested) set_congested(*socket, false);
  for (auto& [pair, peer] : peers_) peer->connection.disown(id);
  std::erase_if(waiters_, [id](const Waiter& one) { return one.socket == id; });
  sockets_.erase(id);
}

Result<SocketAddress> Broker::bind(SocketId id, const SocketAddress& address) {
  Socket& socket = *find(id);
  if (!socket.own.empty()) return refuse(EINVAL, "the socket is bound already");
  if (!outside_.is_own(address))
    return refuse(EADDRNOTAVAIL, fmt::format("{} is no address of this node", address.ip_text()));
  const auto bound = ports_.bind(id, address);
  if (bound) socket.own = *bound;
  return bound;
}

Result<void> Broker::connect(SocketId id, const SocketAddress& peer) {
  find(id)->peer = peer;
  return {};
}

Result<SocketAddress> Broker::destination(const Socket& socket, const SocketAddress& to) const {
  const SocketAddress& where = to.empty() ? socket.peer : to;
  if (socket.own.empty()) return refuse(ENOTCONN, "the socket is not bound");
  if (where.empty()) return refuse(ENOTCONN, "a message without an address");
  if (where.family() != socket.own.family())
    return refuse(EOPNOTSUPP, fmt::format("{} is of another family than {}", where, socket.own));
  return where;
}

void Broker::give_back(const Parcel& parcel) {
  for (const Operation& one : parcel.operations) pool_.give_back(one.local);
  pool_.give_back(parcel.fragments);
}

Result<void> Broker::send(SocketId id, const SocketAddress& to, Parcel parcel, TimeNs now) {
  Socket& socket = *find(id);
  const auto fail = [&](const Error& error) -> Result<void> {
    outside_.on_finished(id);
    give_back(parcel);
    return std::unexpected(error);
  };
  const auto where = destination(socket, to);
  if (!where) return fail(where.error());
  const Pair pair{without_port(socket.own), without_port(*where), socket.tos};
  if (!peers_.contains(pair) && outside_.is_own(*where)) {
    // As Linux, whose loopback has no adapter.
    if (!parcel.operations.empty())
      return fail(Error{EOPNOTSUPP, "RDMA operations within one node"});
    ++socket.sent;
    send_here(id, socket.own, *where, parcel);
    outside_.on_finished(id);
    give_back(parcel);
    return {};
  }
  const auto found = peer_of(pair);
  if (!found) return fail(found.error());
  Peer& peer = **found;
  const bool is_first = peer.state == Peer::State::down && peer.connection.waiting() == 0;
  ++socket.sent;
  ++peer.sent;
  socket.send_bytes += parcel.bytes;
  peer.connection.send({.socket = id,
                        .source_port = socket.own.port(),
                        .destination_port = where->port(),
                        .bytes = parcel.bytes,
                        .fragments = std::move(parcel.fragments),
                        .operations = std::move(parcel.operations),
                        .offered = parcel.offered,
                        .is_silent = parcel.is_silent});
  if (!socket.is_paused && socket.send_bytes >= socket.send_limit)
    outside_.pause(id, socket.is_paused = true);
  mark(peer);
  if (is_first) {
    peer.down_since = now;
    begin(peer, now);
  }
  return {};
}

/// Both sockets are of this node: no connection.
void Broker::send_here(SocketId id, const SocketAddress& from, const SocketAddress& to,
                       const Parcel& parcel) {
  if (to.port() == 0) {
    ++counters_.pings;
    return hand_over(id, *find(id), nullptr, {.from = to});
  }
  const SocketId there = ports_.find(to);
  if (there == kNoSocket) return static_cast<void>(++counters_.no_socket);
  std::vector<ByteSpan> pieces;
  for (std::uint32_t left = parcel.bytes; const Slice& slice : parcel.fragments) {
    const std::uint32_t part = std::min(left, kFragmentBytes);
    pieces.emplace_back(slice.data + Header::kSize, part);
    left -= part;
  }
  hand_over(there, *find(there), nullptr,
            {.from = from, .bytes = parcel.bytes, .pieces = pieces, .offered = parcel.offered});
}

void Broker::cancel(SocketId id, const SocketAddress& to) {
  for (auto& [pair, peer] : peers_) {
    if (!to.empty() && !same_ip(pair.peer, to)) continue;
    peer->connection.cancel(id, to.empty() ? std::uint16_t{0} : to.port());
    release(*peer);
  }
}

bool Broker::is_congested(const Socket& socket, const SocketAddress& to) const {
  if (const auto own = maps_.find(without_port(to)); own != maps_.end())
    return own->second.is_set(to.port());
  const auto peer = peers_.find({without_port(socket.own), without_port(to), socket.tos});
  return peer != peers_.end() && peer->second->map.is_set(to.port());
}

Result<void> Broker::may_send(SocketId id, const SocketAddress& to, std::uint64_t waiter) {
  Socket& socket = *find(id);
  const auto where = destination(socket, to);
  if (!where) return std::unexpected(where.error());
  const bool congested = is_congested(socket, *where);
  if (!congested && !socket.is_paused) return {};
  if (waiter == 0) {
    if (congested) socket.refused_ports |= monitor_bit(where->port());
    return congested ? refuse(ENOBUFS, fmt::format("port {} is congested", *where))
                     : refuse(EAGAIN, "the socket's send buffer is full");
  }
  waiters_.push_back({id, *where, waiter});
  return refuse(EINPROGRESS, "");
}

/// Hands a message to a program, or keeps it if the program does not read.
void Broker::hand_over(SocketId id, Socket& socket, Peer* of, const Delivery& delivery) {
  if (!delivery.notice) ++socket.received;
  if (socket.held.empty() && outside_.deliver(id, delivery)) return;
  Socket::Held& held = socket.held.emplace_back(Socket::Held{.of = of,
                                                             .from = delivery.from,
                                                             .offered = delivery.offered,
                                                             .used = delivery.used,
                                                             .notice = delivery.notice});
  for (const ByteSpan piece : delivery.pieces)
    held.bytes.insert(held.bytes.end(), piece.begin(), piece.end());
  socket.held_bytes += held.bytes.size();
  if (of != nullptr) of->held_bytes += held.bytes.size();
  if (socket.is_congested || socket.held_bytes <= socket.receive_limit) return;
  socket.is_congested = true;
  set_congested(socket, true);
}

void Broker::on_room(SocketId id) {
  Socket* const socket = find(id);
  if (socket == nullptr) return;
  while (!socket->held.empty()) {
    Socket::Held& first = socket->held.front();
    const ByteSpan piece = first.bytes;
    if (!outside_.deliver(id, {.from = first.from,
                               .bytes = static_cast<std::uint32_t>(piece.size()),
                               .pieces = {&piece, 1},
                               .offered = first.offered,
                               .used = first.used,
                               .notice = first.notice}))
      break;
    socket->held_bytes -= piece.size();
    if (first.of != nullptr) first.of->held_bytes -= piece.size();
    socket->held.pop_front();
  }
  if (!socket->is_congested || socket->held_bytes > socket->receive_limit / 2) return;
  socket->is_congested = false;
  set_congested(*socket, false);
}

CongestionMap& Broker::map_of(const SocketAddress& own) { return maps_[without_port(own)]; }

/// Tells the peers of the socket's address, and this node's programs.
void Broker::set_congested(const Socket& socket, bool is_congested) {
  map_of(socket.own).set(socket.own.port(), is_congested);
  congested_sockets_ += is_congested ? 1u : -1u;
  for (auto& [pair, peer] : peers_) {
    if (!same_ip(pair.own, socket.own)) continue;
    peer->connection.owe_map();
    mark(*peer);
  }
  show_congestion();
  if (!is_congested) on_uncongested(monitor_bit(socket.own.port()));
}

/// Those who wait for what has come send now.
void Broker::let_send() {
  const auto waits = std::exchange(waiters_, {});
  for (const Waiter& waiter : waits) {
    const Socket* const socket = find(waiter.socket);
    if (socket == nullptr || socket->is_paused || is_congested(*socket, waiter.to)) {
      waiters_.push_back(waiter);
    } else {
      outside_.let_send(waiter.number);
    }
  }
}

/// Ports of an address are free again.
void Broker::on_uncongested(std::uint64_t ports) {
  let_send();
  for (auto& [id, socket] : sockets_) {
    if (socket.refused_ports == 0) continue;
    const std::uint64_t news = socket.monitors ? ports & socket.refused_ports : ports;
    socket.refused_ports &= socket.monitors ? ~news : 0;
    if (news != 0) outside_.tell_congestion(id, news);
  }
}

void Broker::show_congestion() {
  const bool is_any = congested_sockets_ > 0 || std::ranges::any_of(peers_, [](const auto& one) {
                        return one.second->is_map_set;
                      });
  outside_.show_congestion(is_any);
}

bool Broker::is_idle() const {
  return std::ranges::all_of(peers_,
                             [](const auto& one) { return one.second->connection.waiting() == 0; });
}

}  // namespace verbatim::ulp::rds
