// Calls that create and close descriptors: what is known of them goes along.
#include <cerrno>
#include <cstdarg>

#include <fcntl.h>
#include <unistd.h>

#include "dropin/rdspreload/closing.h"
#include "dropin/rdspreload/fd_table.h"
#include "dropin/rdspreload/next.h"
#include "dropin/rdspreload/sockets.h"

using namespace verbatim::rdspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

namespace {

int duplicated(int from, int to) {
  if (to < 0 || to == from) return to;
  forget(to);
  if (!is_rds(from)) return to;
  set_known(to, known_of(from));
  share_socket(from, to);
  return to;
}

int control(int fd, int command, void* argument) {
  static auto* const plain = next<int(int, int, void*)>("fcntl");
  const int result = plain(fd, command, argument);
  const bool duplicates = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  return duplicates ? duplicated(fd, result) : result;
}

}  // namespace

extern "C" {

EXPORT int close(int fd) {
  static auto* const plain = VERBATIM_NEXT(close);
  forget(fd);
  return plain(fd);
}

EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  static auto* const plain = next<int(unsigned, unsigned, int)>("close_range");
  constexpr int kOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  if ((flags & kOnExec) == 0 && first < kNumbers)
    forget(static_cast<int>(first), static_cast<int>(last < kNumbers ? last : kNumbers - 1));
  return plain(first, last, flags);
}

EXPORT void closefrom(int least) noexcept {
  static auto* const plain = next<void(int)>("closefrom");
  forget(least, kNumbers - 1);
  plain(least);
}

EXPORT int dup(int fd) noexcept {
  static auto* const plain = next<int(int)>("dup");
  return duplicated(fd, plain(fd));
}

EXPORT int dup2(int fd, int number) noexcept {
  static auto* const plain = next<int(int, int)>("dup2");
  return duplicated(fd, plain(fd, number));
}

EXPORT int dup3(int fd, int number, int flags) noexcept {
  static auto* const plain = next<int(int, int, int)>("dup3");
  return duplicated(fd, plain(fd, number, flags));
}

EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(fd, command, argument);
}

EXPORT int fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(fd, command, argument);
}

}  // extern "C"
