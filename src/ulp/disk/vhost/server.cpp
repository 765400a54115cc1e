#include "ulp/disk/vhost/server.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/passed_descriptors.h"
#include "service/folder.h"

namespace verbatim::ulp::disk::vhost {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

UniqueFd new_socket() {
  return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// One that was killed has left its socket: nobody answers there.
void remove_if_left(const std::string& path) {
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  const sockaddr_un address = address_of(path);
  const UniqueFd probe = new_socket();
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED)
    unlink(path.c_str());
}

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const std::string& path, service::Loop& loop,
                                             const storage::DiskFacts& facts, AskDisk ask) {
  std::unique_ptr<Server> server(new Server(path, loop, facts, std::move(ask)));
  if (auto listens = server->listen(); !listens) return std::unexpected(listens.error());
  loop.add(*server);
  return server;
}

Server::~Server() {
  stop();
  loop_.remove(*this);
}

Result<void> Server::listen() {
  if (auto fits = service::check_plain_path(path_); !fits) return fits;
  remove_if_left(path_);
  listener_ = new_socket();
  const sockaddr_un address = address_of(path_);
  // Before it is there: nobody else ever reaches it.
  if (!listener_ || fchmod(listener_.get(), S_IRUSR | S_IWUSR) != 0 ||
      bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 1) != 0) {
    auto refusal = refuse_errno(path_);
    listener_.reset();
    return refusal;
  }
  is_listening_ = true;
  return loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { accept_next(); });
}

void Server::stop() {
  if (connection_) give_up("");
  if (!listener_) return;
  loop_.unwatch(listener_.get());
  listener_.reset();
  unlink(path_.c_str());
}

void Server::accept_next() {
  UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return;
  const auto watched =
      loop_.watch(connection.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { on_readable(); });
  if (!watched) return tell(watched.error().text);
  connection_ = std::move(connection);
  is_reading_ = true;
  // The next one waits until this one has gone.
  loop_.change(listener_.get(), 0);
  is_listening_ = false;
}

/// A message at a time: what comes between is the loop's.
void Server::on_readable() {
  const auto is_whole = receive();
  if (!is_whole) return give_up(is_whole.error().text);
  if (*is_whole) after_message();
}

/// Its header, then the rest. True: a message was carried out.
Result<bool> Server::receive() {
  std::size_t wanted = kHeaderBytes;
  if (have_ >= kHeaderBytes) {
    const auto header = decode_header(std::span(message_).first<kHeaderBytes>());
    if (!header) return std::unexpected(header.error());
    wanted += header->bytes;
  }
  if (have_ < wanted) {
    const iovec piece{&message_[have_], wanted - have_};
    const auto received =
        receive_message(connection_.get(), {&piece, 1},
                        std::span(descriptors_).subspan(descriptor_count_), MSG_DONTWAIT);
    if (!received && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (!received) return refuse_errno("the frontend's message");
    if (received->bytes == 0) return refuse(ECONNRESET, "");  // It has closed.
    have_ += received->bytes;
    descriptor_count_ += received->descriptors;
  }
  if (have_ < wanted) return false;
  return take_message();
}

Result<bool> Server::take_message() {
  const auto header = decode_header(std::span(message_).first<kHeaderBytes>());
  if (!header) return std::unexpected(header.error());
  if (have_ < kHeaderBytes + header->bytes) return false;
  const auto message = decode(*header, ByteSpan(message_).subspan(kHeaderBytes, header->bytes));
  if (!message) return std::unexpected(message.error());
  const auto answer =
      device_.on_message(*message, std::span(descriptors_).first(descriptor_count_));
  if (!answer) return std::unexpected(answer.error());
  for (UniqueFd& fd : descriptors_) fd.reset();
  have_ = descriptor_count_ = 0;
  if (auto sent = reply(*answer); !sent) return std::unexpected(sent.error());
  return true;
}

Result<void> Server::reply(const Bytes& bytes) {
  if (bytes.empty()) return {};
  const auto sent = send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0) return refuse_errno("reply to the frontend");
  if (static_cast<std::size_t>(sent) < bytes.size())
    return refuse(EPROTO, "the frontend does not read its replies");
  return {};
}

/// While the ring stops, no message is read.
void Server::after_message() {
  if (!connection_) return;
  if (const auto late = device_.take_late_reply()) {
    if (auto sent = reply(*late); !sent) return give_up(sent.error().text);
  }
  if (is_reading_ != device_.is_stopping()) return;
  is_reading_ = !is_reading_;
  loop_.change(connection_.get(), is_reading_ ? EPOLLIN : 0U);
}

void Server::give_up(const std::string& why) {
  if (!why.empty()) tell(why);
  loop_.unwatch(connection_.get());
  connection_.reset();
  for (UniqueFd& fd : descriptors_) fd.reset();
  have_ = descriptor_count_ = 0;
  device_.forget_frontend();
}

TimeNs Server::deadline() const {
  const bool may_listen = listener_ && !connection_ && !is_listening_ && device_.is_idle();
  return device_.wants_pump() || may_listen ? loop_.now() : kNever;
}

void Server::on_time(TimeNs) {
  if (device_.wants_pump()) {
    device_.pump();
    after_message();
  }
  if (!listener_ || connection_ || is_listening_ || !device_.is_idle()) return;
  is_listening_ = true;
  loop_.change(listener_.get(), EPOLLIN);
}

Result<void> Server::watch_kick(int fd) {
  return loop_.watch(fd, EPOLLIN, [this](std::uint32_t, TimeNs) {
    device_.on_kick();
    after_message();
  });
}

void Server::tell(const std::string& line) { log(LogLevel::warn, "{}: {}", path_, line); }

}  // namespace verbatim::ulp::disk::vhost
