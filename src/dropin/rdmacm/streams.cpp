#include "dropin/rdmacm/streams.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rdmacm/addresses.h"
#include "dropin/rdmacm/calls.h"
#include "dropin/rdmacm/manager.h"

/// Sockets of the stream manager. The background thread calls with a tag: the number of a
/// connection or of a listener, and above it which of the two.
namespace verbatim::rdmacm {
namespace {

int error_of(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

/// What has become of a connect that is no longer under way. SO_ERROR alone would also tell of ICMP
/// errors that TCP rides out (RFC 5927), where one has come since the connection stands.
int connect_error(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) return 0;
  const int error = error_of(fd);
  return error != 0 ? error : ENOTCONN;
}

/// Nothing is left of it in the kernel, which would wait for its end.
void reset(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

bool has_peer_ended(int fd) {
  pollfd look{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&look, 1, 0) > 0;
}

}  // namespace

Streams::Streams(Manager& manager, std::uint64_t seed, const cm::MpaOffer& wishes)
    : manager_(manager), engine_(seed, wishes) {}

Result<void> Streams::start() {
  auto timer_fd = TimerFd::create();
  if (!timer_fd) return std::unexpected(timer_fd.error());
  timer_fd_ = std::move(*timer_fd);
  const int error = manager_.services().watch(timer_fd_.fd(), EPOLLIN, on_ready, kTimerTag);
  return error == 0 ? Result<void>() : refuse(error, "the background thread takes no descriptor");
}

Result<UniqueFd> Streams::open_socket(const SocketAddress& local, bool only_ipv6) const {
  UniqueFd fd(socket(local.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return refuse_errno("TCP socket");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (only_ipv6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(fd.get(), local.data(), local.size()) != 0) {
    return refuse_errno(fmt::format("TCP socket at {}", local));
  }
  return fd;
}

Result<void> Streams::connect(Id& id, const cm::StreamOffer& offer) {
  cm::StreamEffects effects;
  const auto number =
      engine_.connect(id.connection.plan.path.local, id.remote, offer, monotonic_now(), effects);
  if (!number) return std::unexpected(number.error());
  // Before the effects: the kernel may refuse at once.
  manager_.open(id, *number);
  id.state = IdState::connecting;
  carry_out(effects);
  return {};
}

Result<void> Streams::establish(Id& id) {
  return step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
    return engine.establish(id.connection.number, out);
  });
}

Result<void> Streams::accept(Id& id, const cm::StreamOffer& offer) {
  return step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
    return engine.accept(id.connection.number, offer, out);
  });
}

Result<void> Streams::reject(Id& id, ByteSpan private_data) {
  return step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
    return engine.reject(id.connection.number, private_data, monotonic_now(), out);
  });
}

Result<void> Streams::disconnect(Id& id) {
  return step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
    return engine.disconnect(id.connection.number, monotonic_now(), out);
  });
}

void Streams::release(cm::ConnectionId connection) {
  step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
    engine.release(connection, monotonic_now(), out);
  });
}

void Streams::carry_out(const cm::StreamEffects& effects) {
  for (const cm::StreamEffect& effect : effects) {
    std::visit([this](const auto& one) { on(one); }, effect);
  }
  arm_timer_fd();
}

void Streams::end(cm::ConnectionId connection, int error) {
  step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
    engine.on_end(connection, error, monotonic_now(), out);
  });
}

/// Once; whoever serves it watches again.
void Streams::watch(cm::ConnectionId connection, const Link& link) {
  std::uint32_t events = EPOLLONESHOT | EPOLLRDHUP;
  if (link.is_connecting) events |= EPOLLOUT;
  if (engine_.bytes_wanted(connection) > 0) events |= EPOLLIN;
  manager_.services().watch(link.fd.get(), events, on_ready, tag_of(connection));
}

void Streams::on(const cm::OpenStream& open) {
  Link& link = links_[open.connection];
  if (link.fd) manager_.services().unwatch(link.fd.get());
  link = {};
  auto fd = open_socket(open.local.with_port(0), false);
  if (!fd) {
    warn("no connection to {}: {}", open.remote, fd.error().text);
    return end(open.connection, fd.error().code);
  }
  link.fd = std::move(*fd);
  link.is_connecting = true;
  const int result = ::connect(link.fd.get(), open.remote.data(), open.remote.size());
  if (result != 0 && errno != EINPROGRESS) return end(open.connection, errno);
  watch(open.connection, link);
}

/// Less than any socket's buffer.
void Streams::on(const cm::SendBytes& send) {
  const auto found = links_.find(send.connection);
  if (found == links_.end()) return;
  const int fd = found->second.fd.get();
  const ssize_t sent = ::send(fd, send.bytes.data(), send.bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(send.bytes.size())) return;
  end(send.connection, sent < 0 ? errno : ENOBUFS);
}

void Streams::on(const cm::HandOver& over) {
  const auto found = links_.find(over.connection);
  Id* const id = manager_.find(over.connection);
  if (found == links_.end() || id == nullptr) return;
  Link& link = found->second;
  link.qpn = id->verbs.qp != nullptr ? id->verbs.qp->qp_num : id->connection.own_qpn;
  const VerbatimStream stream{.is_initiator = over.is_initiator,
                              .sends_markers = over.agreement.sends_markers,
                              .receives_markers = over.agreement.receives_markers,
                              .has_crc = over.agreement.has_crc,
                              .ready = static_cast<std::uint8_t>(over.agreement.ready),
                              .inbound_reads = over.agreement.inbound_reads,
                              .outbound_reads = over.agreement.outbound_reads};
  const int own = fcntl(link.fd.get(), F_DUPFD_CLOEXEC, 0);
  const int error = own < 0 ? errno : manager_.services().start_stream(link.qpn, own, &stream);
  if (own < 0) warn("QP {:#x} gets no stream: {}", link.qpn, std::strerror(error));
  if (error != 0) return end(over.connection, error);
  watch(over.connection, link);
  if (!over.is_initiator) manager_.on(cm::Established{.connection = over.connection});
}

void Streams::on(const cm::CloseStream& close) {
  const auto found = links_.find(close.connection);
  if (found == links_.end()) return;
  const int fd = found->second.fd.get();
  if (fd >= 0) manager_.services().unwatch(fd);
  if (close.is_turned_out) {
    reset(fd);
    warn(
        "{} and others are disconnected: they say nothing, or ask for more connections than the "
        "program answers, which may have {} descriptors",
        SocketAddress::of_peer(fd).value_or(SocketAddress()), descriptor_limit());
  }
  links_.erase(found);
  resume();
}

void Streams::on(const cm::StreamRequest& request) {
  cm::ConnectRequest told{.connection = request.connection,
                          .listener = request.listener,
                          .ends = request.ends,
                          .path = {.local = request.ends.destination.with_port(0),
                                   .remote = request.ends.source.with_port(0)},
                          .private_data = request.private_data};
  told.path.mtu = manager_.active_mtu();
  told.peer.responder_resources = request.inbound_reads;
  told.peer.initiator_depth = request.outbound_reads;
  manager_.on(told);
}

void Streams::on(const cm::StreamReply& reply) {
  cm::ConnectResponse told{.connection = reply.connection, .private_data = reply.private_data};
  told.peer.responder_resources = reply.inbound_reads;
  told.peer.initiator_depth = reply.outbound_reads;
  manager_.on(told);
}

void Streams::on(const cm::StreamFailed& failed) { manager_.on(failed); }

void Streams::on(const cm::StreamEnded& ended) {
  Id* const id = manager_.find(ended.connection);
  manager_.on(cm::Disconnected{.connection = ended.connection});
  if (id != nullptr) manager_.close(*id);
}

void Streams::arm_timer_fd() {
  const TimeNs at = std::min(engine_.deadline(), resume_at_);
  if (at != timer_fd_.at()) timer_fd_.set(at);
}

// The background thread.

void Streams::on_ready(std::uint64_t tag) {
  const auto manager = Manager::get();
  if (!manager || (*manager)->streams() == nullptr) return;
  Streams& streams = *(*manager)->streams();
  const auto number = static_cast<std::uint32_t>(tag);
  if (tag == kTimerTag) return streams.on_timer_fd();
  if ((tag & kListenerTag) != 0) return streams.on_listener(static_cast<cm::ListenerId>(number));
  streams.on_link(static_cast<cm::ConnectionId>(number));
}

void Streams::on_timer_fd() {
  const std::lock_guard guard(manager_.lock);
  timer_fd_.clear();
  if (monotonic_now() >= resume_at_) resume();
  step([](cm::StreamManager& engine, cm::StreamEffects& out) {
    engine.on_timeout(monotonic_now(), out);
  });
}

std::uint32_t Streams::queue_pair_of(cm::ConnectionId connection) {
  const std::lock_guard guard(manager_.lock);
  const auto found = links_.find(connection);
  return found == links_.end() ? 0 : found->second.qpn;
}

/// The program gets what the peer has sent before it hears that the peer has gone.
void Streams::on_link(cm::ConnectionId connection) {
  if (const std::uint32_t qpn = queue_pair_of(connection); qpn != 0) {
    manager_.services().drain_stream(qpn);
  }
  const std::lock_guard guard(manager_.lock);
  const auto found = links_.find(connection);
  if (found == links_.end()) return;
  Link& link = found->second;
  if (std::exchange(link.is_connecting, false)) {
    if (const int error = connect_error(link.fd.get())) return end(connection, error);
    step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
      engine.on_connected(connection, monotonic_now(), out);
    });
  } else if (engine_.bytes_wanted(connection) > 0) {
    if (!read(connection, link)) return;
  } else if (has_peer_ended(link.fd.get())) {
    return end(connection, error_of(link.fd.get()));
  }
  // It may have gone meanwhile.
  if (const auto still = links_.find(connection); still != links_.end()) {
    watch(connection, still->second);
  }
}

/// As many bytes as the engine wants. False: the connection has ended.
bool Streams::read(cm::ConnectionId connection, Link& link) {
  std::array<std::byte, wire::MpaFrame::kSize + wire::MpaFrame::kPrivateDataMax> bytes;
  while (const std::size_t wanted = engine_.bytes_wanted(connection)) {
    // It does not block. NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    const ssize_t got = recv(link.fd.get(), bytes.data(), std::min(wanted, bytes.size()), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) {
      end(connection, got == 0 ? 0 : errno);
      return false;
    }
    step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
      engine.on_bytes(connection, std::span(bytes).first(static_cast<std::size_t>(got)), out);
    });
    const auto still = links_.find(connection);
    if (still == links_.end() || &still->second != &link || !link.fd) return false;
    if (link.is_connecting) return false;  // Once more, over another socket.
  }
  return true;
}

}  // namespace verbatim::rdmacm
