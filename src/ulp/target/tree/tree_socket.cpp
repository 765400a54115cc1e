#include "ulp/target/tree/tree_socket.h"

#include <cerrno>
#include <cstring>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/folder.h"

namespace verbatim::ulp::target {

Result<std::unique_ptr<TreeSocket>> TreeSocket::create(service::Loop& loop, const std::string& path,
                                                       Handler handler) {
  if (auto fits = service::check_plain_path(path); !fits) return std::unexpected(fits.error());
  auto listener = service::listen_at(path);
  if (!listener) return std::unexpected(listener.error());
  std::unique_ptr<TreeSocket> made(
      new TreeSocket(loop, path, std::move(*listener), std::move(handler)));
  auto watched = loop.watch(made->listener_.get(), EPOLLIN,
                            [self = made.get()](std::uint32_t, TimeNs) { self->accept_all(); });
  if (!watched) return std::unexpected(watched.error());
  return made;
}

TreeSocket::~TreeSocket() {
  for (const auto& [fd, connection] : connections_) loop_.unwatch(fd);
  loop_.unwatch(listener_.get());
  unlink(path_.c_str());
}

/// Who is one too many is closed at once.
void TreeSocket::accept_all() {
  for (;;) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (connections_.size() >= kConnectionsMax) continue;
    const int fd = socket.get();
    if (!loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t, TimeNs) { on_ready(fd); })) continue;
    connections_[fd].socket = std::move(socket);
  }
}

/// All that has come: what a child has written comes before what its parent asks then.
void TreeSocket::on_ready(int fd) {
  Connection& connection = connections_.at(fd);
  for (;;) {
    const ssize_t bytes = recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (bytes > 0) {
      serve(connection, std::string_view(buffer_).substr(0, static_cast<std::size_t>(bytes)));
      continue;
    }
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
    loop_.unwatch(fd);
    connections_.erase(fd);
    return;
  }
}

void TreeSocket::serve(Connection& connection, std::string_view message) {
  Answer answer;
  if (!connection.opened.empty()) {
    answer = handler_(TreeRequest::write, connection.opened, message);
  } else {
    const auto asked = static_cast<TreeRequest>(message[0]);
    message.remove_prefix(1);
    const std::string path(message.substr(0, message.find('\0')));
    message.remove_prefix(std::min(path.size() + 1, message.size()));
    answer = handler_(asked, path, message);
    if (asked == TreeRequest::open && answer.code == 0) connection.opened = path;
  }
  std::string text(sizeof answer.code, '\0');
  std::memcpy(text.data(), &answer.code, sizeof answer.code);
  text += answer.text;
  // A child of a shell does not read its answers, and may have ended: nobody waits for it.
  send(connection.socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace verbatim::ulp::target
