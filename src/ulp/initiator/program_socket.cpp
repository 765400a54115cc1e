#include "ulp/initiator/program_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/folder.h"

namespace verbatim::ulp::initiator {

Result<std::unique_ptr<ProgramSocket>> ProgramSocket::create(service::Loop& loop,
                                                             const std::string& path,
                                                             ProgramHandler& handler) {
  if (auto fits = service::check_plain_path(path); !fits) return std::unexpected(fits.error());
  auto listener = service::listen_at(path);
  if (!listener) return std::unexpected(listener.error());
  std::unique_ptr<ProgramSocket> made(new ProgramSocket(loop, path, std::move(*listener), handler));
  auto watched = loop.watch(made->listener_.get(), EPOLLIN,
                            [self = made.get()](std::uint32_t, TimeNs) { self->accept_all(); });
  if (!watched) return std::unexpected(watched.error());
  return made;
}

ProgramSocket::~ProgramSocket() {
  for (const auto& [fd, connection] : connections_) loop_.unwatch(fd);
  loop_.unwatch(listener_.get());
  unlink(path_.c_str());
}

/// Who is one too many is closed at once.
void ProgramSocket::accept_all() {
  for (;;) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (connections_.size() >= kConnectionsMax) continue;
    const int fd = socket.get();
    if (!loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t, TimeNs) { on_ready(fd); })) continue;
    connections_[fd] = {.file = OpenFile{++last_}, .socket = std::move(socket), .opened = {}};
  }
}

void ProgramSocket::on_ready(int fd) {
  const ssize_t bytes = recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes > 0 && static_cast<std::size_t>(bytes) <= buffer_.size())
    return serve(fd, std::string_view(buffer_).substr(0, static_cast<std::size_t>(bytes)));
  loop_.unwatch(fd);
  const OpenFile file = connections_.at(fd).file;
  connections_.erase(fd);
  handler_.on_close(file);
}

void ProgramSocket::serve(int fd, std::string_view message) {
  Connection& connection = connections_.at(fd);
  connection.is_busy = true;
  loop_.change(fd, 0);
  if (!connection.opened.empty())
    return handler_.on_message(connection.file, connection.opened, message);
  const std::string path(message.substr(1, message.find('\0') - 1));
  const int code = message[0] == 'o' && !path.empty() ? handler_.on_open(path) : ENOSYS;
  if (code == 0) connection.opened = path;
  answer(connection.file, code);
}

void ProgramSocket::answer(OpenFile file, int code, std::string_view text, std::string_view more) {
  const auto found =
      std::ranges::find(connections_, file, [](const auto& one) { return one.second.file; });
  if (found == connections_.end()) return;
  std::string bytes(sizeof code, '\0');
  std::memcpy(bytes.data(), &code, sizeof code);
  bytes += text;
  // A child of a shell does not read its answers, and may have ended: nobody waits for it.
  send(found->first, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (!more.empty()) send(found->first, more.data(), more.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  found->second.is_busy = false;
  loop_.change(found->first, EPOLLIN);
}

}  // namespace verbatim::ulp::initiator
