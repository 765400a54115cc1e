/// System calls without the C library's function, which would be a cancellation point.
#include <cstdarg>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

template <typename Returned, typename... Arguments>
Returned direct(long number, Arguments... arguments) {
  return static_cast<Returned>(syscall(number, arguments...));
}

/// An argument that a caller may have left out: the kernel looks at it if it needs it.
long optional_argument(std::va_list list) { return va_arg(list, long); }

}  // namespace

extern "C" {

int __wrap_close(int fd) { return direct<int>(SYS_close, fd); }

int __wrap_openat(int folder, const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const long mode = optional_argument(list);
  va_end(list);
  return direct<int>(SYS_openat, folder, path, flags, mode);
}
int __wrap_open(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const long mode = optional_argument(list);
  va_end(list);
  return direct<int>(SYS_openat, AT_FDCWD, path, flags, mode);
}
int __wrap_fcntl(int fd, int command, ...) {
  std::va_list list;
  va_start(list, command);
  const long argument = optional_argument(list);
  va_end(list);
  return direct<int>(SYS_fcntl, fd, command, argument);
}

ssize_t __wrap_read(int fd, void* to, std::size_t size) {
  return direct<ssize_t>(SYS_read, fd, to, size);
}
ssize_t __wrap_write(int fd, const void* from, std::size_t size) {
  return direct<ssize_t>(SYS_write, fd, from, size);
}
ssize_t __wrap_writev(int fd, const iovec* parts, int count) {
  return direct<ssize_t>(SYS_writev, fd, parts, count);
}
ssize_t __wrap_pread(int fd, void* to, std::size_t size, off_t at) {
  return direct<ssize_t>(SYS_pread64, fd, to, size, at);
}
ssize_t __wrap_pwrite(int fd, const void* from, std::size_t size, off_t at) {
  return direct<ssize_t>(SYS_pwrite64, fd, from, size, at);
}
ssize_t __wrap_preadv2(int fd, const iovec* parts, int count, off_t at, int flags) {
  return direct<ssize_t>(SYS_preadv2, fd, parts, count, at, 0L, flags);
}
int __wrap_fallocate(int fd, int mode, off_t at, off_t size) {
  return direct<int>(SYS_fallocate, fd, mode, at, size);
}
int __wrap_eventfd_read(int fd, eventfd_t* value) {
  return direct<ssize_t>(SYS_read, fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}
int __wrap_eventfd_write(int fd, eventfd_t value) {
  return direct<ssize_t>(SYS_write, fd, &value, sizeof value) == sizeof value ? 0 : -1;
}
ssize_t __wrap_getrandom(void* to, std::size_t size, unsigned flags) {
  return direct<ssize_t>(SYS_getrandom, to, size, flags);
}

int __wrap_connect(int fd, const sockaddr* address, socklen_t length) {
  return direct<int>(SYS_connect, fd, address, length);
}
int __wrap_accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return direct<int>(SYS_accept4, fd, address, length, flags);
}
ssize_t __wrap_send(int fd, const void* from, std::size_t size, int flags) {
  return direct<ssize_t>(SYS_sendto, fd, from, size, flags, nullptr, 0L);
}
ssize_t __wrap_sendto(int fd, const void* from, std::size_t size, int flags,
                      const sockaddr* address, socklen_t length) {
  return direct<ssize_t>(SYS_sendto, fd, from, size, flags, address, length);
}
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  return direct<ssize_t>(SYS_sendmsg, fd, message, flags);
}
int __wrap_sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  return direct<int>(SYS_sendmmsg, fd, messages, count, flags);
}
ssize_t __wrap_recv(int fd, void* to, std::size_t size, int flags) {
  return direct<ssize_t>(SYS_recvfrom, fd, to, size, flags, nullptr, nullptr);
}
ssize_t __wrap_recvfrom(int fd, void* to, std::size_t size, int flags, sockaddr* address,
                        socklen_t* length) {
  return direct<ssize_t>(SYS_recvfrom, fd, to, size, flags, address, length);
}
ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  return direct<ssize_t>(SYS_recvmsg, fd, message, flags);
}
int __wrap_recvmmsg(int fd, mmsghdr* messages, unsigned count, int flags, timespec* limit) {
  return direct<int>(SYS_recvmmsg, fd, messages, count, flags, limit);
}

int __wrap_poll(pollfd* fds, nfds_t count, int timeout_ms) {
  timespec limit{.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1'000'000L};
  return direct<int>(SYS_ppoll, fds, count, timeout_ms < 0 ? nullptr : &limit, nullptr, 0L);
}
int __wrap_epoll_wait(int fd, epoll_event* events, int count, int timeout_ms) {
  return direct<int>(SYS_epoll_pwait, fd, events, count, timeout_ms, nullptr, 0L);
}
int __wrap_nanosleep(const timespec* time, timespec* left) {
  return direct<int>(SYS_nanosleep, time, left);
}
int __wrap_usleep(useconds_t microseconds) {
  const timespec time{.tv_sec = microseconds / 1'000'000,
                      .tv_nsec = microseconds % 1'000'000 * 1000L};
  return direct<int>(SYS_nanosleep, &time, nullptr);
}
pid_t __wrap_waitpid(pid_t child, int* status, int options) {
  return direct<pid_t>(SYS_wait4, child, status, options, nullptr);
}

}  // extern "C"
