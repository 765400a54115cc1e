#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "dropin/rdmacm/manager.h"
#include "dropin/rdmacm/streams.h"

/// Who listens, and whom it accepts.
namespace verbatim::rdmacm {
namespace {

/// So long nobody is accepted where there was no descriptor, unless a connection ends before.
constexpr TimeNs kPause = 100 * kMillisecond;
/// At one time: those that were accepted before shall be read, too.
constexpr int kAcceptedMax = 16;
/// Strangers do not get the last of the descriptors: one part in so many.
constexpr int kLastPart = 8;

}  // namespace

Result<void> Streams::listen_at(cm::ListenerId listener, Listening& listening,
                                const SocketAddress& address) const {
  const SocketAddress local = address.with_port(listening.at.port());
  auto fd = open_socket(local, local.is_ipv6());
  if (!fd) return std::unexpected(fd.error());
  if (::listen(fd->get(), listening.backlog) != 0) {
    return refuse_errno(fmt::format("listening at {}", local));
  }
  if (const int error = manager_.services().watch(fd->get(), EPOLLIN, on_ready, tag_of(listener))) {
    return refuse(error,
                  fmt::format("listening at {}: the background thread takes no descriptor", local));
  }
  listening.sockets[address.with_port(0)] = std::move(*fd);
  return {};
}

Result<cm::ListenerId> Streams::listen(Id& id, int backlog) {
  const auto number = static_cast<cm::ListenerId>(++last_listener_);
  Listening& listening = listening_[number];
  listening.at = id.local;
  listening.both_families = id.local.is_ipv6() && !id.options.own_family_only.value_or(false);
  listening.backlog = backlog > 0 ? backlog : SOMAXCONN;
  for (const SocketAddress& address : addresses_of(listening)) {
    if (auto listens = listen_at(number, listening, address); !listens) {
      unlisten(number);
      return std::unexpected(listens.error());
    }
  }
  return number;
}

/// Of a wildcard, for other nodes of the machine listen at the same port.
std::vector<SocketAddress> Streams::addresses_of(const Listening& listening) const {
  if (!connect::is_wildcard(listening.at)) return {listening.at};
  return manager_.addresses().all(listening.at.family(), listening.both_families);
}

void Streams::follow_addresses() {
  for (auto& [number, listening] : listening_) {
    for (const SocketAddress& address : addresses_of(listening)) {
      if (listening.sockets.contains(address.with_port(0))) continue;
      const auto listens = listen_at(number, listening, address);
      if (!listens) log(LogLevel::warn, "a new address has no listener: {}", listens.error().text);
    }
  }
}

void Streams::unlisten(cm::ListenerId listener) {
  const auto found = listening_.find(listener);
  if (found == listening_.end()) return;
  for (const auto& [address, fd] : found->second.sockets) manager_.services().unwatch(fd.get());
  listening_.erase(found);
}

/// A listener that nobody is accepted from stays readable: the thread would not sleep.
void Streams::pause() {
  for (const auto& [number, listening] : listening_) {
    for (const auto& [address, fd] : listening.sockets) manager_.services().unwatch(fd.get());
  }
  resume_at_ = monotonic_now() + kPause;
  arm_timer_fd();
}

void Streams::resume() {
  if (std::exchange(resume_at_, kNever) == kNever) return;
  for (const auto& [number, listening] : listening_) {
    for (const auto& [address, fd] : listening.sockets) {
      manager_.services().watch(fd.get(), EPOLLIN, on_ready, tag_of(number));
    }
  }
}

int Streams::descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

// The background thread.

void Streams::on_listener(cm::ListenerId listener) {
  const std::lock_guard guard(manager_.lock);
  const auto found = listening_.find(listener);
  if (found == listening_.end()) return;
  const int descriptors = descriptor_limit();
  engine_.set_descriptors(static_cast<std::size_t>(descriptors));
  for (const auto& [address, socket] : found->second.sockets) {
    if (!accept_from(listener, socket.get(), descriptors)) return pause();
  }
}

/// Some of those who wait. False: there is no descriptor for the next.
bool Streams::accept_from(cm::ListenerId listener, int socket, int descriptors) {
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
    const bool has_room = step(
        [](cm::StreamManager& engine, cm::StreamEffects& out) { return engine.make_room(out); });
    if (has_room) continue;
    warn("a connection waits to be accepted: {} (this program may have {} descriptors)",
         std::strerror(error), descriptors);
    return false;
  }
  return true;
}

void Streams::take_socket(cm::ListenerId listener, UniqueFd fd, const SocketAddress& peer,
                          bool few_are_left) {
  const cm::IpEndpoints ends{
      .source = peer, .destination = SocketAddress::of_socket(fd.get()).value_or(SocketAddress())};
  const auto connection = step([&](cm::StreamManager& engine, cm::StreamEffects& out) {
    return engine.on_accepted(listener, ends, few_are_left, monotonic_now(), out);
  });
  if (!connection) return warn("{} is disconnected: there are too many connections", peer);
  Link& link = links_[*connection];
  link.fd = std::move(fd);
  // The Request is there, most often.
  if (read(*connection, link)) watch(*connection, link);
}

}  // namespace verbatim::rdmacm
