#include "ulp/tcp/driver.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/overloaded.h"

namespace verbatim::ulp::tcp {
namespace {

constexpr std::size_t kPiecesMax = 256;  // Of one call.

/// A socket that listens at :: has IPv4 peers as ::ffff:a.b.c.d.
SocketAddress plain(const Result<SocketAddress>& address) {
  if (!address) return {};
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const auto bytes = address->ipv6_bytes();
  if (!address->is_ipv6() || !std::equal(std::begin(kMapped), std::end(kMapped), bytes.begin()))
    return *address;
  return SocketAddress::ipv4({bytes[12], bytes[13], bytes[14], bytes[15]}, address->port());
}

void set_option(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

Driver::Driver(rdma::Handler& handler, service::Loop& loop, const Options& options)
    : handler_(handler),
      loop_(loop),
      options_(options),
      peers_(options.connections_max),
      counts_(options.connections_max),
      chunk_(options.message_bytes) {
  loop_.add(*this);
}

Driver::~Driver() {
  for (const Listener& listener : listeners_) unlisten(listener.id);
  for (const auto& peer : peers_) {
    if (peer != nullptr && peer->socket) loop_.unwatch(peer->socket.get());
  }
  loop_.remove(*this);
}

Result<ListenerId> Driver::listen(const SocketAddress& address, int backlog) {
  const auto what = [&] { return fmt::format("TCP at {}", address.text()); };
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return refuse_errno(what());
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.is_ipv6()) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), address.data(), address.size()) != 0 ||
      ::listen(socket.get(), backlog) != 0)
    return refuse_errno(what());
  const auto id =
      ListenerId{options_.first_listener + static_cast<std::uint32_t>(listeners_.size())};
  Listener& listener = listeners_.emplace_back(std::move(socket), id);
  auto watched =
      loop_.watch(listener.socket.get(), EPOLLIN,
                  [this, &listener](std::uint32_t, TimeNs now) { on_connections(listener, now); });
  if (!watched) return std::unexpected(watched.error());
  return id;
}

/// Its number is not used again.
void Driver::unlisten(ListenerId listener) {
  Listener& one = listeners_.at(raw(listener) - options_.first_listener);
  if (!one.socket) return;
  loop_.unwatch(one.socket.get());
  one.socket.reset();
}

SocketAddress Driver::address_of(ListenerId listener) const {
  const auto index = raw(listener) - options_.first_listener;
  return SocketAddress::of_socket(listeners_.at(index).socket.get()).value_or(SocketAddress());
}

void Driver::on_connections(const Listener& listener, TimeNs now) {
  for (;;) {
    UniqueFd socket(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    add(std::move(socket), listener.id, now);
  }
}

Result<Driver::Peer*> Driver::make_peer(UniqueFd socket, std::uint32_t events) {
  const auto place = std::ranges::find_if(peers_, [](const auto& one) { return !one; });
  if (place == peers_.end())
    return refuse(ENOBUFS, fmt::format("TCP: {} connections are the most", peers_.size()));
  const auto index = static_cast<std::uint32_t>(place - peers_.begin());
  *place = std::make_unique<Peer>();
  Peer& peer = **place;
  peer.id = rdma::connection_id(options_.first_number + index, counts_[index]++);
  peer.is_known = true;
  ++count_;
  if (socket) take_socket(peer, std::move(socket), events);
  return &peer;
}

void Driver::take_socket(Peer& peer, UniqueFd socket, std::uint32_t events) {
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  peer.socket = std::move(socket);
  peer.events = events;
  const auto watched =
      loop_.watch(peer.socket.get(), events,
                  [this, &peer](std::uint32_t ready, TimeNs at) { on_ready(peer, ready, at); });
  if (!watched) end(peer, watched.error().text);
}

void Driver::take_socket(ConnectionId connection, Result<UniqueFd> socket) {
  Peer* const peer = find(connection);
  if (peer == nullptr || peer->is_ending) return;
  if (!socket) return end(*peer, socket.error().text);
  take_socket(*peer, std::move(*socket), EPOLLOUT);
}

/// A peer that is one too many is closed at once.
void Driver::add(UniqueFd socket, ListenerId listener, TimeNs now) {
  Meeting meeting{.peer = plain(SocketAddress::of_peer(socket.get())),
                  .own = plain(SocketAddress::of_socket(socket.get())),
                  .reads = {}};
  if (const auto peer = make_peer(std::move(socket), EPOLLIN))
    handler_.on_requested({listener, (*peer)->id, std::move(meeting)}, now);
}

Result<UniqueFd> Driver::begin_connect(const SocketAddress& to) {
  const auto what = [&] { return fmt::format("TCP to {}", to.text()); };
  UniqueFd socket(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return refuse_errno(what());
  if (::connect(socket.get(), to.data(), to.size()) != 0 && errno != EINPROGRESS)
    return refuse_errno(what());
  return socket;
}

Result<ConnectionId> Driver::connect(const SocketAddress& to) {
  auto socket = options_.connector == nullptr ? begin_connect(to) : UniqueFd();
  if (!socket) return std::unexpected(socket.error());
  const auto peer = make_peer(std::move(*socket), EPOLLOUT);
  if (!peer) return std::unexpected(peer.error());
  (*peer)->is_connecting = true;
  const ConnectionId id = (*peer)->id;
  if (options_.connector != nullptr)
    options_.connector->connect(
        to, [this, id](Result<UniqueFd> made) { take_socket(id, std::move(made)); });
  return id;
}

void Driver::on_connected(Peer& peer, TimeNs now) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(peer.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return end(peer, fmt::format("TCP: {}", std::strerror(error)));
  peer.is_connecting = false;
  work_.clear();
  handler_.on_established({peer.id, {}, {}}, now, work_);
  carry_out(peer.id, work_, now);
}

Driver::Peer* Driver::find(ConnectionId connection) {
  const std::uint32_t index = rdma::number_of(connection) - options_.first_number;
  if (index >= peers_.size() || peers_[index] == nullptr) return nullptr;
  return peers_[index]->id == connection ? peers_[index].get() : nullptr;
}

Result<void> Driver::accept(ConnectionId, const QueueSizes&, ByteSpan) { return {}; }

void Driver::reject(ConnectionId connection, ByteSpan) {
  if (Peer* const peer = find(connection)) end(*peer, "");
}

void Driver::disconnect(ConnectionId connection, const std::string& words, TimeNs) {
  if (Peer* const peer = find(connection)) end(*peer, words);
}

void Driver::disconnect_all() {
  for (const auto& peer : peers_) {
    if (peer != nullptr) end(*peer, "");
  }
}

void Driver::end(Peer& peer, std::string words) {
  if (peer.is_ending) return;
  peer.is_ending = true;
  peer.words = std::move(words);
  touch(peer);
}

void Driver::touch(Peer& peer) {
  if (std::exchange(peer.is_touched, true)) return;
  touched_.push_back(peer.id);
}

void Driver::carry_out(ConnectionId connection, std::span<const Work> work, TimeNs) {
  Peer* const peer = find(connection);
  if (peer == nullptr) return;
  for (const Work& one : work) {
    if (peer->is_ending) return;
    if (const auto* const send = std::get_if<Send>(&one)) {
      peer->out.push_back({{send->header.begin(), send->header.end()}, send->payload, send->done});
      peer->header_bytes += send->header.size();
    } else if (const auto* const again = std::get_if<PostAgain>(&one)) {
      post_again(again->receive);
    } else if (const auto* const over = std::get_if<Disconnect>(&one)) {
      write(*peer);
      end(*peer, over->reason);
    } else {
      end(*peer, "TCP carries neither RDMA WRITE nor READ");
    }
  }
  touch(*peer);
}

void Driver::post_again(ReceiveId receive) {
  if (raw(receive) >= peers_.size() || peers_[raw(receive)] == nullptr) return;
  Peer& peer = *peers_[raw(receive)];
  peer.has_kept = false;
  touch(peer);
}

void Driver::on_ready(Peer& peer, std::uint32_t events, TimeNs now) {
  if (peer.is_connecting && !peer.is_ending) return on_connected(peer, now), serve(peer, now);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !peer.is_ending) read(peer, now);
  serve(peer, now);
}

void Driver::read(Peer& peer, TimeNs now) {
  if (peer.has_kept || peer.header_bytes > kHeadersMax) return;
  std::array<iovec, Placer::kPlacesMax + 1> into;
  std::size_t count = 0, room = 0;
  if (options_.placer != nullptr) {
    for (const Slice& slice : options_.placer->place_of(peer.id)) {
      if (count == Placer::kPlacesMax) break;
      into[count++] = {slice.data, slice.bytes};
      room += slice.bytes;
    }
  }
  into[count++] = {chunk_.data(), chunk_.size()};
  const ssize_t bytes = readv(peer.socket.get(), into.data(), static_cast<int>(count));
  if (bytes == 0) return end(peer, "");
  if (bytes < 0) {
    if (errno != EAGAIN && errno != EINTR) end(peer, std::strerror(errno));
    return;
  }
  const std::size_t placed = std::min(room, static_cast<std::size_t>(bytes));
  if (placed > 0) options_.placer->on_placed(peer.id, static_cast<std::uint32_t>(placed), now);
  const auto rest = static_cast<std::uint32_t>(static_cast<std::size_t>(bytes) - placed);
  if (rest > 0 && !peer.is_ending) on_bytes(peer, rest, now);
}

/// They lie in `chunk_`.
void Driver::on_bytes(Peer& peer, std::uint32_t bytes, TimeNs now) {
  const auto receive = ReceiveId{rdma::number_of(peer.id) - options_.first_number};
  const Message message{.receive = receive, .memory = {chunk_.data(), bytes, {}}};
  peer.has_kept = true;  // Until the engine says otherwise, from within the call or later.
  work_.clear();
  const ReceiveUse use = handler_.on_message(peer.id, message, now, work_);
  if (use == ReceiveUse::done) peer.has_kept = false;
  // The engine has the bytes of a chunk that it keeps; the next one comes elsewhere.
  if (peer.has_kept) peer.kept.swap(chunk_), chunk_.resize(options_.message_bytes);
  carry_out(peer.id, work_, now);
}

bool Driver::write(Peer& peer) {
  iovec pieces[kPiecesMax];
  std::size_t count = 0, skip = peer.written, asked = 0;
  const auto add = [&](const std::byte* data, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (bytes == skipped || count == kPiecesMax) return;
    pieces[count++] = {const_cast<std::byte*>(data) + skipped, bytes - skipped};
    asked += bytes - skipped;
  };
  for (const Out& one : peer.out) {
    if (count == kPiecesMax) break;
    add(one.header.data(), one.header.size());
    for (const Slice& slice : one.payload) add(slice.data, slice.bytes);
  }
  if (count == 0) return false;
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  const ssize_t bytes = sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL);
  if (bytes > 0) peer.written += static_cast<std::size_t>(bytes);
  if (bytes < 0 && errno != EAGAIN && errno != EINTR) end(peer, std::strerror(errno));
  return bytes > 0 && static_cast<std::size_t>(bytes) == asked;
}

/// Gives back the tags of what the kernel has taken.
void Driver::give_back_written(Peer& peer, TimeNs now) {
  while (!peer.out.empty()) {
    const Out& first = peer.out.front();
    const std::size_t whole = first.header.size() + ulp::bytes_of(first.payload);
    if (peer.written < whole) return;
    const Tag done = first.done;
    peer.written -= whole;
    peer.header_bytes -= first.header.size();
    peer.out.pop_front();
    if (done == kNoTag) continue;
    work_.clear();
    handler_.on_done(peer.id, done, CompletionStatus::success, now, work_);
    carry_out(peer.id, work_, now);
  }
}

/// Writes all that can be written; the engine may have more by then.
void Driver::serve(Peer& peer, TimeNs now) {
  bool has_written = !peer.is_connecting;
  while (has_written && !peer.is_ending) {
    has_written = write(peer);
    give_back_written(peer, now);
  }
  if (peer.is_ending) return touch(peer);
  if (!peer.is_connecting) watch(peer);
}

void Driver::watch(Peer& peer) {
  const bool may_read = !peer.has_kept && peer.header_bytes <= kHeadersMax;
  const std::uint32_t events =
      (may_read ? EPOLLIN : 0u) | (peer.out.empty() ? 0u : std::uint32_t{EPOLLOUT});
  if (events != peer.events) loop_.change(peer.socket.get(), events);
  peer.events = events;
}

void Driver::on_time(TimeNs now) {
  const auto touched = std::exchange(touched_, {});
  for (const ConnectionId id : touched) {
    Peer* const peer = find(id);
    if (peer == nullptr) continue;
    peer->is_touched = false;
    if (!peer->is_ending) serve(*peer, now);
    if (peer->is_ending) finish(*peer, now);
  }
}

void Driver::finish(Peer& peer, TimeNs now) {
  if (peer.socket) loop_.unwatch(peer.socket.get()), shutdown(peer.socket.get(), SHUT_RDWR);
  peer.socket.reset();
  const auto out = std::exchange(peer.out, {});
  for (const Out& one : out) {
    work_.clear();
    if (one.done != kNoTag)
      handler_.on_done(peer.id, one.done, CompletionStatus::flushed, now, work_);
  }
  handler_.on_end(peer.id, {.words = peer.words}, now);
  --count_;
  peers_[rdma::number_of(peer.id) - options_.first_number].reset();
}

}  // namespace verbatim::ulp::tcp
