#include "connect/mpa_service.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/// The calls of the service, and the TCP sockets of its connections.
namespace verbatim::connect {
namespace {

int error_of(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

/// Returns the result of a connect that has ended. SO_ERROR alone may also have an ICMP error that
/// TCP survives (RFC 5927) and that came after the connection was established.
int connect_error(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) return 0;
  const int error = error_of(fd);
  return error != 0 ? error : ENOTCONN;
}

/// Closes with a reset, so that the kernel keeps no state of the connection.
void reset(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

bool has_peer_ended(int fd) {
  pollfd look{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&look, 1, 0) > 0;
}

/// Whether this side has ended its half, or the connection is over. By the kernel's word: the queue
/// pair has the same socket, and may be the program's own, of which librdmacm knows the number
/// only.
bool sends_no_more(int fd) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return true;
  return info.tcpi_state != TCP_ESTABLISHED && info.tcpi_state != TCP_CLOSE_WAIT;
}

cm::StreamOffer stream_offer(const QueuePairOffer& offer, ByteSpan private_data) {
  return {.inbound_reads = offer.responder_resources,
          .outbound_reads = offer.initiator_depth,
          .private_data = private_data};
}

}  // namespace

Result<void> MpaService::start() {
  auto timer = TimerFd::create();
  if (!timer) return std::unexpected(timer.error());
  timer_ = std::move(*timer);
  return host_.watch(timer_.fd(), EPOLLIN, kTimerTag);
}

Result<ConnectionId> MpaService::connect(const ConnectParameters& parameters) {
  const SocketAddress remote =
      parameters.ends.empty() ? address_of(parameters.path.remote) : parameters.ends.destination;
  cm::StreamEffects effects;
  const auto id = engine_.connect(parameters.path.local, remote,
                                  stream_offer(parameters.offer, parameters.private_data),
                                  host_.now(), effects);
  if (!id) return id;
  streams_[*id].queue_pair = parameters.offer.qpn;
  carry_out(effects);
  return id;
}

Result<void> MpaService::accept(ConnectionId id, const AcceptParameters& parameters) {
  note_taken(id);
  if (const auto found = streams_.find(id); found != streams_.end()) {
    found->second.queue_pair = parameters.offer.qpn;
  }
  return step([&](cm::StreamEffects& out) {
    return engine_.accept(id, stream_offer(parameters.offer, parameters.private_data), out);
  });
}

Result<void> MpaService::establish(ConnectionId id) {
  return step([&](cm::StreamEffects& out) { return engine_.establish(id, out); });
}

Result<void> MpaService::reject(ConnectionId id, RejectReason, ByteSpan private_data) {
  note_taken(id);
  return step(
      [&](cm::StreamEffects& out) { return engine_.reject(id, private_data, host_.now(), out); });
}

Result<void> MpaService::disconnect(ConnectionId id) {
  return step([&](cm::StreamEffects& out) { return engine_.disconnect(id, host_.now(), out); });
}

void MpaService::release(ConnectionId id) {
  note_taken(id);
  step([&](cm::StreamEffects& out) { engine_.release(id, host_.now(), out); });
}

Result<ConnectionId> MpaService::resolve(const ResolveParameters&) {
  return refuse(EOPNOTSUPP, "iWARP has no datagrams");
}

Result<void> MpaService::answer(ConnectionId, const SidrAnswer&) {
  return refuse(EOPNOTSUPP, "iWARP has no datagrams");
}

Result<void> MpaService::notify_established(ConnectionId) {
  return refuse(EINVAL, "over iWARP a connection is established by its stream alone");
}

// Effects of the engine.

void MpaService::carry_out(const cm::StreamEffects& effects) {
  for (const cm::StreamEffect& effect : effects) {
    std::visit([this](const auto& one) { on(one); }, effect);
  }
  arm_timer();
}

void MpaService::on(const cm::OpenStream& open) {
  Stream& stream = streams_[open.connection];
  if (stream.fd) host_.unwatch(stream.fd.get());
  stream = {.queue_pair = stream.queue_pair};
  auto fd = open_tcp_socket(open.local.with_port(0), false);
  if (!fd) {
    warn("no connection to {}: {}", open.remote, fd.error().text);
    failed_opens_.push_back({open.connection, fd.error().code});
    return;
  }
  stream.fd = std::move(*fd);
  stream.is_connecting = true;
  const int result = ::connect(stream.fd.get(), open.remote.data(), open.remote.size());
  if (result == 0 || errno == EINPROGRESS) return watch(open.connection, stream);
  failed_opens_.push_back({open.connection, errno});
}

/// Less than any socket's send buffer.
void MpaService::on(const cm::SendBytes& send) {
  const auto found = streams_.find(send.connection);
  if (found == streams_.end()) return;
  const int fd = found->second.fd.get();
  const ssize_t sent = ::send(fd, send.bytes.data(), send.bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(send.bytes.size())) return;
  end(send.connection, sent < 0 ? errno : ENOBUFS);
}

void MpaService::on(const cm::HandOver& over) {
  const auto found = streams_.find(over.connection);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  stream.is_handed_over = true;
  UniqueFd own(fcntl(stream.fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!own) {
    const int error = errno;
    warn("QP {:#x} gets no stream: {}", stream.queue_pair.value(), std::strerror(error));
    return end(over.connection, error);
  }
  const auto started =
      host_.start_stream(stream.queue_pair, std::move(own), over.agreement, over.is_initiator);
  if (!started) return end(over.connection, started.error().code);
  watch(over.connection, stream);
  if (!over.is_initiator) events_.on(cm::Established{.connection = over.connection});
}

void MpaService::on(const cm::EndStream& end) {
  const auto found = streams_.find(end.connection);
  if (found == streams_.end()) return;
  host_.end_stream(found->second.queue_pair);
  if (!sends_no_more(found->second.fd.get())) return;
  step([&](cm::StreamEffects& out) { engine_.on_own_end(end.connection, out); });
}

void MpaService::on(const cm::CloseStream& close) {
  note_taken(close.connection);
  const auto found = streams_.find(close.connection);
  if (found == streams_.end()) return;
  const int fd = found->second.fd.get();
  if (fd >= 0) host_.unwatch(fd);
  if (close.is_turned_out) {
    reset(fd);
    warn(
        "{} and others are disconnected: they say nothing, or ask for more connections than the "
        "program answers, which may have {} descriptors",
        SocketAddress::of_peer(fd).value_or(SocketAddress()), descriptor_limit());
  }
  streams_.erase(found);
  resume();
}

void MpaService::on(const cm::StreamRequest& request) {
  if (!wait_at(request.listener, request.connection)) return release(request.connection);
  cm::ConnectRequest told{.connection = request.connection,
                          .listener = request.listener,
                          .ends = request.ends,
                          .path = {.local = request.ends.destination.with_port(0),
                                   .remote = StreamPath{request.ends.source.with_port(0)}},
                          .private_data = request.private_data};
  told.peer.responder_resources = request.inbound_reads;
  told.peer.initiator_depth = request.outbound_reads;
  events_.on(told);
}

void MpaService::on(const cm::StreamReply& reply) {
  cm::ConnectResponse told{.connection = reply.connection, .private_data = reply.private_data};
  told.peer.responder_resources = reply.inbound_reads;
  told.peer.initiator_depth = reply.outbound_reads;
  events_.on(told);
}

// Streams.

void MpaService::end(ConnectionId connection, int error) {
  step([&](cm::StreamEffects& out) { engine_.on_end(connection, error, host_.now(), out); });
}

/// Watches once; the handler watches again.
void MpaService::watch(ConnectionId connection, const Stream& stream) {
  std::uint32_t events = EPOLLONESHOT | EPOLLRDHUP;
  if (stream.is_connecting) events |= EPOLLOUT;
  if (engine_.bytes_wanted(connection) > 0) events |= EPOLLIN;
  static_cast<void>(host_.watch(stream.fd.get(), events, tag_of(connection)));
}

void MpaService::arm_timer() {
  const TimeNs at = failed_opens_.empty() ? std::min(engine_.deadline(), resume_at_) : host_.now();
  if (at != timer_.at()) timer_.set(at);
}

Qpn MpaService::queue_pair_of(std::uint64_t tag) const {
  const auto found = streams_.find(static_cast<ConnectionId>(tag));
  const bool has_stream = tag < kListenerTag && found != streams_.end();
  return has_stream && found->second.is_handed_over ? found->second.queue_pair : Qpn{};
}

void MpaService::on_ready(std::uint64_t tag) {
  const auto number = static_cast<std::uint32_t>(tag);
  if (tag == kTimerTag) return on_timer();
  if ((tag & kListenerTag) != 0) return on_listener(static_cast<ListenerId>(number));
  on_stream(static_cast<ConnectionId>(number));
}

void MpaService::on_timer() {
  timer_.clear();
  for (const auto& [connection, error] : std::exchange(failed_opens_, {})) end(connection, error);
  if (host_.now() >= resume_at_) resume();
  step([&](cm::StreamEffects& out) { engine_.on_timeout(host_.now(), out); });
}

void MpaService::on_stream(ConnectionId connection) {
  const auto found = streams_.find(connection);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  if (std::exchange(stream.is_connecting, false)) {
    if (const int error = connect_error(stream.fd.get())) return end(connection, error);
    step([&](cm::StreamEffects& out) { engine_.on_connected(connection, host_.now(), out); });
  } else if (engine_.bytes_wanted(connection) > 0) {
    if (!read(connection, stream)) return;
  } else if (has_peer_ended(stream.fd.get())) {
    return end(connection, error_of(stream.fd.get()));
  }
  // It may have ended meanwhile.
  if (const auto still = streams_.find(connection); still != streams_.end()) {
    watch(connection, still->second);
  }
}

/// Reads as many bytes as the engine wants. Returns false if the connection has ended.
bool MpaService::read(ConnectionId connection, Stream& stream) {
  std::array<std::byte, wire::MpaFrame::kSize + wire::MpaFrame::kPrivateDataMax> bytes;
  while (const std::size_t wanted = engine_.bytes_wanted(connection)) {
    // The socket does not block. NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    const ssize_t got = recv(stream.fd.get(), bytes.data(), std::min(wanted, bytes.size()), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) {
      end(connection, got == 0 ? 0 : errno);
      return false;
    }
    step([&](cm::StreamEffects& out) {
      engine_.on_bytes(connection, std::span(bytes).first(static_cast<std::size_t>(got)), out);
    });
    const auto still = streams_.find(connection);
    if (still == streams_.end() || &still->second != &stream || !stream.fd) return false;
    if (stream.is_connecting) return false;  // Tried again with another socket.
  }
  return true;
}

Result<std::unique_ptr<ConnectionService>> make_mpa_service(Host& host, Events& events,
                                                            const Addresses& addresses,
                                                            std::uint64_t seed,
                                                            std::string_view wishes) {
  const auto offer = cm::parse_mpa_options(wishes);
  if (!offer) return refuse(EINVAL, "VERBATIM_MPA: " + offer.error().text);
  auto service = std::make_unique<MpaService>(host, events, addresses, seed, *offer);
  if (auto started = service->start(); !started) return std::unexpected(started.error());
  return service;
}

}  // namespace verbatim::connect
