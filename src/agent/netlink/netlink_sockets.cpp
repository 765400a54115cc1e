#include "agent/netlink/netlink_sockets.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/folder.h"

namespace verbatim::agent::netlink {
namespace {

constexpr std::size_t kRequestBytesMax = 8192;

/// The kernel gives a socket its process id as port, unless the program chooses: the view then
/// binds its end to an abstract name that ends with the number.
std::uint32_t port_of(int fd, pid_t pid) {
  sockaddr_un name{};
  socklen_t length = sizeof name;
  unsigned port = 0;
  const bool is_bound = getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0 &&
                        length > offsetof(sockaddr_un, sun_path) + 1 && length < sizeof name;
  if (is_bound && std::sscanf(name.sun_path + 1, "verbatim-netlink-%8x", &port) == 1) return port;
  return static_cast<std::uint32_t>(pid);
}

}  // namespace

Result<std::unique_ptr<NetlinkSockets>> NetlinkSockets::listen(const std::string& path,
                                                               Answerer answerer) {
  auto listening = service::listen_at(path);
  if (!listening) return std::unexpected(listening.error());
  std::unique_ptr<NetlinkSockets> sockets(new NetlinkSockets(path, std::move(answerer)));
  sockets->listening_ = std::move(*listening);
  sockets->events_.reset(epoll_create1(EPOLL_CLOEXEC));
  sockets->spare_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!sockets->events_) return refuse_errno("epoll");
  sockets->watch(sockets->listening_.get(), EPOLLIN, EPOLL_CTL_ADD);
  return sockets;
}

NetlinkSockets::~NetlinkSockets() {
  if (listening_) unlink(path_.c_str());
}

void NetlinkSockets::watch(int fd, std::uint32_t events, int operation) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  (void)epoll_ctl(events_.get(), operation, fd, &event);
}

void NetlinkSockets::serve() {
  std::array<epoll_event, 16> ready;
  const int count = epoll_wait(events_.get(), ready.data(), ready.size(), 0);
  bool has_newcomers = false;
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    has_newcomers |= fd == listening_.get();
    if (const auto found = connections_.find(fd); found != connections_.end()) {
      on_ready(found->second);
    }
  }
  if (has_newcomers) accept();  // Last: a new connection may get the number of one that has ended.
}

void NetlinkSockets::accept() {
  UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd && (errno == EMFILE || errno == ENFILE)) {
    spare_.reset();
    fd.reset(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    fd.reset();
    spare_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  if (!fd || getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      peer.uid != geteuid()) {
    return;
  }
  const int key = fd.get();
  watch(key, EPOLLIN, EPOLL_CTL_ADD);
  connections_[key] = {
      .fd = std::move(fd),
      .asker = {.port = static_cast<std::uint32_t>(peer.pid), .has_admin_rights = peer.uid == 0},
      .waiting = {}};
  if (connections_.size() == kConnectionsMax) watch(listening_.get(), 0, EPOLL_CTL_MOD);
}

void NetlinkSockets::on_ready(Connection& connection) {
  const bool was_full = !connection.waiting.empty();
  const bool lives = was_full ? send_waiting(connection) : receive(connection);
  if (!lives) {
    if (connections_.size() == kConnectionsMax) watch(listening_.get(), EPOLLIN, EPOLL_CTL_MOD);
    connections_.erase(connection.fd.get());
    return;
  }
  const bool is_full = !connection.waiting.empty();
  if (is_full != was_full) {
    watch(connection.fd.get(), is_full ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
  }
}

/// Returns false at the connection's end.
bool NetlinkSockets::receive(Connection& connection) {
  std::array<std::byte, kRequestBytesMax> bytes;
  const int fd = connection.fd.get();
  const ssize_t length = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (length < 0) return errno == EAGAIN || errno == EINTR;
  if (length == 0) return false;
  connection.asker.port = port_of(fd, static_cast<pid_t>(connection.asker.port));
  auto answers =
      answerer_(std::span(bytes).first(static_cast<std::size_t>(length)), connection.asker);
  for (auto& answer : answers) connection.waiting.push_back(std::move(answer));
  return send_waiting(connection);
}

bool NetlinkSockets::send_waiting(Connection& connection) {
  while (!connection.waiting.empty()) {
    const auto& next = connection.waiting.front();
    if (send(connection.fd.get(), next.data(), next.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    connection.waiting.pop_front();
  }
  return true;
}

}  // namespace verbatim::agent::netlink
