// fstat and lseek report an rsocket as a socket, although its descriptor is none to the kernel.
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/next.h"

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

namespace {

template <typename Stat>
int as_socket(int result, int fd, Stat* status) {
  if (result == 0 && is_ours(fd)) status->st_mode = (status->st_mode & ~S_IFMT) | S_IFSOCK;
  return result;
}

}  // namespace

extern "C" {

EXPORT int fstat(int fd, struct stat* status) {
  static auto* const plain = VERBATIM_NEXT(fstat);
  return as_socket(plain(fd, status), fd, status);
}

EXPORT int fstat64(int fd, struct stat64* status) {
  static auto* const plain = VERBATIM_NEXT(fstat64);
  return as_socket(plain(fd, status), fd, status);
}

EXPORT off_t lseek(int fd, off_t offset, int whence) noexcept {
  static auto* const plain = VERBATIM_NEXT(lseek);
  if (!is_ours(fd)) return plain(fd, offset, whence);
  errno = ESPIPE;
  return -1;
}

EXPORT off64_t lseek64(int fd, off64_t offset, int whence) noexcept {
  return lseek(fd, offset, whence);
}

// Variants for programs built with a C library before 2.33.

EXPORT int __fxstat(int version, int fd, struct stat* status) {
  static auto* const plain = next<int(int, int, struct stat*)>("__fxstat");
  return as_socket(plain(version, fd, status), fd, status);
}

EXPORT int __fxstat64(int version, int fd, struct stat64* status) {
  static auto* const plain = next<int(int, int, struct stat64*)>("__fxstat64");
  return as_socket(plain(version, fd, status), fd, status);
}

}  // extern "C"
