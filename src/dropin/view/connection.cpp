#include "dropin/view/connection.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "dropin/view/redirect.h"

namespace verbatim::view {
namespace {

const char* root_of(Daemon daemon) {
  return daemon == Daemon::target ? target_root() : initiator_root();
}

bool fill_address(Daemon daemon, sockaddr_un& address) {
  const char* const folder = root_of(daemon);
  constexpr const char* kSocket = "/socket";
  if (folder == nullptr || std::strlen(folder) + std::strlen(kSocket) >= sizeof address.sun_path)
    return false;
  address.sun_family = AF_UNIX;
  std::strcpy(stpcpy(address.sun_path, folder), kSocket);
  return true;
}

/// -1: no daemon runs. The kernel without its modules answers so, too.
int dial(Daemon daemon) {
  sockaddr_un address{};
  if (!fill_address(daemon, address)) return -1;
  const auto fd = static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  call_close(fd);
  return -1;
}

void receive(int fd, Reply& reply) {
  char bytes[sizeof reply.text + sizeof reply.code];
  const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
  if (got < static_cast<ssize_t>(sizeof reply.code)) return;
  std::memcpy(&reply.code, bytes, sizeof reply.code);
  reply.size = static_cast<std::size_t>(got) - sizeof reply.code;
  std::memcpy(reply.text, bytes + sizeof reply.code, reply.size);
}

void ask(int fd, char request, const char* path, const char* second, Reply& reply) {
  char message[1 + 2 * PATH_MAX];
  message[0] = request;
  char* const end = stpcpy(message + 1, path) + 1;
  const std::size_t size = std::strlen(second);
  if (size >= PATH_MAX) return static_cast<void>(reply.code = ENAMETOOLONG);
  std::memcpy(end, second, size);
  if (send(fd, message, static_cast<std::size_t>(end - message) + size, MSG_NOSIGNAL) >= 0)
    receive(fd, reply);
}

constexpr int kNumbersMax = 1024;
Opened kinds[kNumbersMax];

Opened hint_of(int fd) {
  return fd >= 0 && fd < kNumbersMax ? __atomic_load_n(&kinds[fd], __ATOMIC_RELAXED)
                                     : Opened::nothing;
}

bool is_connected_to(Daemon daemon, int fd) {
  sockaddr_un own{}, peer{};
  socklen_t size = sizeof peer;
  return fill_address(daemon, own) &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         peer.sun_family == AF_UNIX && std::strcmp(own.sun_path, peer.sun_path) == 0;
}
bool is_connected(int fd) {
  return is_connected_to(Daemon::target, fd) || is_connected_to(Daemon::initiator, fd);
}

ssize_t write_cookie(void* cookie, const char* bytes, std::size_t size) {
  const ssize_t written =
      write_attribute(static_cast<int>(reinterpret_cast<long>(cookie)), bytes, size);
  return written < 0 ? 0 : written;  // fopencookie(3): an error is 0.
}
int close_cookie(void* cookie) {
  const auto fd = static_cast<int>(reinterpret_cast<long>(cookie));
  set_kind(fd, Opened::nothing);
  return call_close(fd);
}
FILE* stream_of(int fd, bool owns) {
  const cookie_io_functions_t calls{nullptr, write_cookie, nullptr, owns ? close_cookie : nullptr};
  return fopencookie(reinterpret_cast<void*>(static_cast<long>(fd)), "w", calls);
}

/// A shell's own `echo` writes by stdio, inside the C library: while descriptor 1 is an attribute,
/// stdout is a stream that asks the daemon.
FILE* first_stdout = nullptr;
void swap_stdout(bool is_attribute) {
  if (is_attribute && first_stdout == nullptr) {
    if (FILE* const made = stream_of(1, false)) first_stdout = stdout, stdout = made;
  } else if (!is_attribute && first_stdout != nullptr) {
    std::fclose(stdout);
    stdout = first_stdout;
    first_stdout = nullptr;
  }
}

}  // namespace

Reply::Reply() : code(EIO) {}

int call_close(int fd) { return static_cast<int>(syscall(SYS_close, fd)); }

int dial_and_ask(Daemon daemon, char request, const char* path, const char* second, Reply& reply) {
  const int fd = dial(daemon);
  if (fd < 0) return errno = ENOENT, -1;
  ask(fd, request, path, second, reply);
  if (reply.code == 0) return fd;
  call_close(fd);
  errno = reply.code;
  return -1;
}

int open_at(Daemon daemon, const char* path, int flags, Opened kind) {
  Reply reply;
  const int fd = dial_and_ask(daemon, 'o', path, "", reply);
  if (fd < 0) return -1;
  if ((flags & O_CLOEXEC) == 0) syscall(SYS_fcntl, fd, F_SETFD, 0);
  set_kind(fd, kind);
  return fd;
}

void set_kind(int fd, Opened kind) {
  if (fd >= 0 && fd < kNumbersMax) __atomic_store_n(&kinds[fd], kind, __ATOMIC_RELAXED);
}

Opened kind_of(int fd) {
  const Opened kind = hint_of(fd);
  if (kind == Opened::nothing) return kind;
  const int before = errno;
  const bool is_one = is_connected(fd);
  if (!is_one) set_kind(fd, Opened::nothing);
  errno = before;
  return is_one ? kind : Opened::nothing;
}

void note_inherited(int fd) {
  if (is_connected(fd)) set_kind(fd, Opened::attribute);
}

void note_copy(int from, int to) {
  if (to < 0 || from == to) return;
  const Opened kind = hint_of(from);
  set_kind(to, kind);
  if (to == 1 && from >= 0) swap_stdout(kind != Opened::nothing);
}

ssize_t write_attribute(int fd, const void* bytes, std::size_t size) {
  constexpr std::size_t kMax = 4096;
  Reply reply;
  if (size == 0) return errno = EFAULT, -1;
  // A child that knows nothing of this has left its answers unread.
  while (recv(fd, reply.text, sizeof reply.text, MSG_DONTWAIT) > 0) {
  }
  if (send(fd, bytes, size < kMax ? size : kMax, MSG_NOSIGNAL) < 0) return -1;
  receive(fd, reply);
  if (reply.code != 0) return errno = reply.code, -1;
  reply.text[reply.size < 16 ? reply.size : 16] = '\0';
  return static_cast<ssize_t>(std::strtoul(reply.text, nullptr, 10));
}

FILE* stream_to_write(int fd) { return stream_of(fd, true); }

}  // namespace verbatim::view
