#include "dropin/view/tree.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "dropin/view/next.h"
#include "dropin/view/redirect.h"

namespace verbatim::view {
namespace {

constexpr const char* kMount = "/sys/kernel/config";
/// The C library's own calls: those of its names would come back to us.
int call_close(int fd) { return static_cast<int>(syscall(SYS_close, fd)); }

// --- The daemon

bool fill_address(sockaddr_un& address) {
  const char* const folder = target_root();
  constexpr const char* kSocket = "/socket";
  if (folder == nullptr || std::strlen(folder) + std::strlen(kSocket) >= sizeof address.sun_path)
    return false;
  address.sun_family = AF_UNIX;
  std::strcpy(stpcpy(address.sun_path, folder), kSocket);
  return true;
}

/// -1: no target runs. The kernel without configfs answers so, too.
int dial() {
  sockaddr_un address{};
  if (!fill_address(address)) return -1;
  const auto fd = static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (fd < 0) return -1;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  call_close(fd);
  return -1;
}

struct Reply {
  int code = EIO;
  std::size_t size = 0;  // Of the text.
  char text[8192];
};

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

/// The connection, or -1 and errno: what the daemon says.
int dial_and_ask(char request, const char* path, const char* second, Reply& reply) {
  const int fd = dial();
  if (fd < 0) return errno = ENOENT, -1;
  ask(fd, request, path, second, reply);
  if (reply.code == 0) return fd;
  call_close(fd);
  errno = reply.code;
  return -1;
}

// --- Descriptors for writing: a hint for low numbers; the socket's name decides.

constexpr int kWritersMax = 1024;
unsigned char writers[kWritersMax];

bool may_be_writer(int fd) {
  return fd >= 0 && fd < kWritersMax && __atomic_load_n(&writers[fd], __ATOMIC_RELAXED) != 0;
}
void set_writer(int fd, bool is_writer) {
  if (fd >= 0 && fd < kWritersMax)
    __atomic_store_n(&writers[fd], is_writer ? 1 : 0, __ATOMIC_RELAXED);
}

bool is_connected_to_daemon(int fd) {
  sockaddr_un own{}, peer{};
  socklen_t size = sizeof peer;
  return fill_address(own) && getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         peer.sun_family == AF_UNIX && std::strcmp(own.sun_path, peer.sun_path) == 0;
}

ssize_t write_cookie(void* cookie, const char* bytes, std::size_t size) {
  const ssize_t written =
      write_attribute(static_cast<int>(reinterpret_cast<long>(cookie)), bytes, size);
  return written < 0 ? 0 : written;  // fopencookie(3): an error is 0.
}
int close_cookie(void* cookie) {
  const auto fd = static_cast<int>(reinterpret_cast<long>(cookie));
  set_writer(fd, false);
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

// --- Programs that insist on being root

bool is_administrators = false;

bool is_named(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash == nullptr ? path : slash + 1;
  for (const char* const known : {"targetcli", "targetctl", "nvmetcli"})
    if (std::strcmp(name, known) == 0) return true;
  return false;
}

/// A script's name is the second word. Its system bus is the target's: the machine's takes no user
/// for root.
[[gnu::constructor]] void look_at_program(int argc, char** argv, char**) {
  const char* const folder = target_root();
  if (folder == nullptr || argc < 1) return;
  if (is_connected_to_daemon(1)) set_writer(1, true);
  is_administrators = is_named(argv[0]) || (argc > 1 && is_named(argv[1]));
  char address[PATH_MAX + 32];
  if (!is_administrators || std::strlen(folder) >= PATH_MAX) return;
  std::strcpy(stpcpy(stpcpy(address, "unix:path="), folder), "/bus");
  setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
}

}  // namespace

bool acts_as_root() { return is_administrators; }

bool TreePath::take_inside(const char* path) {
  char copy[PATH_MAX];
  const char* rest = nullptr;
  const char* const folder = target_root();
  is_ours_ = lies_in(path, kMount, &rest);
  if (!is_ours_ && folder != nullptr && std::strlen(folder) + 8 < sizeof copy) {
    std::strcpy(stpcpy(copy, folder), "/config");
    is_ours_ = lies_in(path, copy, &rest);
  }
  if (!is_ours_) return false;
  while (*rest == '/') ++rest;
  is_ours_ = std::strlen(rest) < sizeof path_;
  if (is_ours_) std::strcpy(path_, rest);
  return is_ours_;
}

TreePath::TreePath(int folder, const char* path) {
  if (path == nullptr || target_root() == nullptr) return;
  const int before = errno;
  if (*path == '/') {
    take_inside(path);
  } else {
    char base[PATH_MAX], link[32];
    ssize_t size = 0;
    if (folder == AT_FDCWD) {
      size = syscall(SYS_getcwd, base, sizeof base) - 1;
    } else {
      std::snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
      size = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
    }
    if (size > 0 && static_cast<std::size_t>(size) + std::strlen(path) + 2 < sizeof base) {
      base[size] = '/';
      std::strcpy(base + size + 1, path);
      take_inside(base);
    }
  }
  errno = before;
}

int change_tree(char request, const TreePath& path, const char* second) {
  Reply reply;
  const int fd = dial_and_ask(request, path.path(), second, reply);
  return fd < 0 ? -1 : call_close(fd);
}

int open_to_read(const TreePath& path, int flags) {
  Reply reply;
  const int fd = dial_and_ask('g', path.path(), "", reply);
  if (fd < 0) return -1;
  call_close(fd);
  const int file = memfd_create("attribute", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0u);
  if (file < 0) return -1;
  if (syscall(SYS_write, file, reply.text, reply.size) != static_cast<ssize_t>(reply.size) ||
      lseek(file, 0, SEEK_SET) != 0)
    return call_close(file), errno = EIO, -1;
  set_writer(file, false);
  return file;
}

int open_to_write(const TreePath& path, int flags) {
  Reply reply;
  const int fd = dial_and_ask('o', path.path(), "", reply);
  if (fd < 0 && errno == ENOENT && (flags & O_CREAT) != 0) errno = EACCES;
  if (fd < 0) return -1;
  if ((flags & O_CLOEXEC) == 0) syscall(SYS_fcntl, fd, F_SETFD, 0);
  set_writer(fd, true);
  return fd;
}

FILE* stream_to_write(int fd) { return stream_of(fd, true); }

bool is_writer(int fd) {
  if (!may_be_writer(fd)) return false;
  const int before = errno;
  const bool is_one = is_connected_to_daemon(fd);
  if (!is_one) set_writer(fd, false);
  errno = before;
  return is_one;
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

void note_copy(int from, int to) {
  if (to < 0 || from == to) return;
  const bool is_attribute = may_be_writer(from);
  set_writer(to, is_attribute);
  if (to == 1 && from >= 0) swap_stdout(is_attribute);
}

}  // namespace verbatim::view
