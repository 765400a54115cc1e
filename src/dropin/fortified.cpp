#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/// The variants with checks of buffers' sizes, which programs built with _FORTIFY_SOURCE call: each
/// goes to the function that the preloaded library has of the plain name. A part of each of these
/// libraries.
#define EXPORT __attribute__((visibility("default")))

extern "C" {

[[noreturn]] void __chk_fail();  // libc's: called when a buffer would be overrun.

EXPORT ssize_t __read_chk(int fd, void* buffer, size_t size, size_t room) {
  if (size > room) __chk_fail();
  return read(fd, buffer, size);
}

EXPORT ssize_t __recv_chk(int fd, void* buffer, size_t size, size_t room, int flags) {
  if (size > room) __chk_fail();
  return recv(fd, buffer, size, flags);
}

EXPORT ssize_t __recvfrom_chk(int fd, void* buffer, size_t size, size_t room, int flags,
                              sockaddr* address, socklen_t* length) {
  if (size > room) __chk_fail();
  return recvfrom(fd, buffer, size, flags, address, length);
}

EXPORT int __poll_chk(pollfd* fds, nfds_t count, int timeout, size_t room) {
  if (count > room / sizeof(pollfd)) __chk_fail();
  return poll(fds, count, timeout);
}

EXPORT int __ppoll_chk(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* signals,
                       size_t room) {
  if (count > room / sizeof(pollfd)) __chk_fail();
  return ppoll(fds, count, timeout, signals);
}

}  // extern "C"
