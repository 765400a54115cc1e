#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "connect/mpa_service.h"

/// Listeners, and accepting connections.
namespace verbatim::connect {
namespace {

/// If no descriptor is left, accepting pauses for this long, or until a connection ends.
constexpr TimeNs kPause = 100 * kMillisecond;
/// Connections accepted at a time; then those that are accepted are read.
constexpr int kAcceptedMax = 16;
/// The last 1 / kLastPart of the descriptors count as few: strangers get less room then.
constexpr int kLastPart = 8;
/// Requests that wait for the user, if the program gives no backlog: as the kernel's ucma.
constexpr int kRequestsDefault = 1024;

}  // namespace

Result<UniqueFd> open_tcp_socket(const SocketAddress& local, bool only_ipv6) {
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

int descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

Result<void> MpaService::listen_at(ListenerId number, Listener& listener,
                                   const SocketAddress& address) const {
  const SocketAddress local = address.with_port(listener.at.port());
  auto fd = open_tcp_socket(local, local.is_ipv6());
  if (!fd) return std::unexpected(fd.error());
  const int backlog = listener.backlog > 0 ? listener.backlog : SOMAXCONN;
  if (::listen(fd->get(), backlog) != 0) return refuse_errno(fmt::format("listening at {}", local));
  if (auto watched = host_.watch(fd->get(), EPOLLIN, tag_of(number)); !watched) {
    return refuse(watched.error().code,
                  fmt::format("listening at {}: {}", local, watched.error().text));
  }
  listener.sockets[address.with_port(0)] = std::move(*fd);
  return {};
}

Result<ListenerId> MpaService::listen(ListenAt where, int backlog) {
  const auto number = static_cast<ListenerId>(++last_listener_);
  Listener& listener = listeners_[number];
  listener.at = where.address;
  listener.both_families = where.both_families;
  listener.backlog = backlog;
  for (const SocketAddress& address : addresses_of(listener)) {
    if (auto listens = listen_at(number, listener, address); !listens) {
      unlisten(number);
      return std::unexpected(listens.error());
    }
  }
  return number;
}

/// For a wildcard, each address has its own socket, because other nodes of the machine listen at
/// the same port.
std::vector<SocketAddress> MpaService::addresses_of(const Listener& listener) const {
  if (!is_wildcard(listener.at)) return {listener.at};
  return addresses_.all(listener.at.family(), listener.both_families);
}

/// Wildcard listeners listen at new addresses, too.
void MpaService::on_addresses_changed() {
  for (auto& [number, listener] : listeners_) {
    for (const SocketAddress& address : addresses_of(listener)) {
      if (listener.sockets.contains(address.with_port(0))) continue;
      const auto listens = listen_at(number, listener, address);
      if (!listens) log(LogLevel::warn, "a new address has no listener: {}", listens.error().text);
    }
  }
}

void MpaService::unlisten(ListenerId listener) {
  const auto found = listeners_.find(listener);
  if (found == listeners_.end()) return;
  for (const auto& [address, fd] : found->second.sockets) host_.unwatch(fd.get());
  listeners_.erase(found);
}

/// Returns false if the backlog is full.
bool MpaService::wait_at(ListenerId listener, ConnectionId request) {
  const auto found = listeners_.find(listener);
  if (found == listeners_.end()) return false;
  Listener& at = found->second;
  if (at.waiting >= (at.backlog > 0 ? at.backlog : kRequestsDefault)) return false;
  ++at.waiting;
  waiting_[request] = listener;
  return true;
}

void MpaService::note_taken(ConnectionId id) {
  const auto waits = waiting_.extract(id);
  if (waits.empty()) return;
  if (const auto found = listeners_.find(waits.mapped()); found != listeners_.end()) {
    --found->second.waiting;
  }
}

/// A listener with waiting connections stays readable, so the thread could not sleep.
void MpaService::pause() {
  for (const auto& [number, listener] : listeners_) {
    for (const auto& [address, fd] : listener.sockets) host_.unwatch(fd.get());
  }
  resume_at_ = host_.now() + kPause;
  arm_timer();
}

void MpaService::resume() {
  if (std::exchange(resume_at_, kNever) == kNever) return;
  for (const auto& [number, listener] : listeners_) {
    for (const auto& [address, fd] : listener.sockets) {
      static_cast<void>(host_.watch(fd.get(), EPOLLIN, tag_of(number)));
    }
  }
}

void MpaService::on_listener(ListenerId listener) {
  const auto found = listeners_.find(listener);
  if (found == listeners_.end()) return;
  const int descriptors = descriptor_limit();
  engine_.set_descriptors(static_cast<std::size_t>(descriptors));
  for (const auto& [address, socket] : found->second.sockets) {
    if (!accept_from(listener, socket.get(), descriptors)) return pause();
  }
}

/// Accepts some waiting connections. Returns false if no descriptor is left.
bool MpaService::accept_from(ListenerId listener, int socket, int descriptors) {
  for (int accepted = 0; accepted < kAcceptedMax;) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    auto* const name = reinterpret_cast<sockaddr*>(&storage);
    UniqueFd fd(accept4(socket, name, &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      ++accepted;
      const bool few_are_left = fd.get() >= descriptors - descriptors / kLastPart;
      const auto peer = SocketAddress::from(name, length);
      if (peer) take_socket(listener, std::move(fd), *peer, few_are_left);
      continue;
    }
    const int error = errno;
    if (error == ECONNABORTED || error == EINTR) continue;
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) return true;
    if (step([&](cm::StreamEffects& out) { return engine_.make_room(out); })) continue;
    warn("a connection waits to be accepted: {} (this program may have {} descriptors)",
         std::strerror(error), descriptors);
    return false;
  }
  return true;
}

void MpaService::take_socket(ListenerId listener, UniqueFd fd, const SocketAddress& peer,
                             bool few_are_left) {
  const IpEndpoints ends{
      .source = peer, .destination = SocketAddress::of_socket(fd.get()).value_or(SocketAddress())};
  const auto connection = step([&](cm::StreamEffects& out) {
    return engine_.on_accepted(listener, ends, few_are_left, host_.now(), out);
  });
  if (!connection) return warn("{} is disconnected: there are too many connections", peer);
  Stream& stream = streams_[*connection];
  stream.fd = std::move(fd);
  // The Request has usually arrived already.
  if (read(*connection, stream)) watch(*connection, stream);
}

}  // namespace verbatim::connect
