// Calls that create and close fds: close, dup and its variants, fcntl.
#include <cerrno>
#include <cstdarg>

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/heirs/heir.h"
#include "dropin/rspreload/heirs/owner.h"
#include "dropin/rspreload/next.h"
#include "dropin/rspreload/pending/pending.h"
#include "ulp/rsocket/private.h"
#include "ulp/sockets/epoll_sets.h"

using namespace verbatim::rspreload;     // NOLINT: a file of entry points.
using namespace verbatim::ulp::sockets;  // NOLINT

#define EXPORT __attribute__((visibility("default")))

namespace {

using Control = int(int, int, void*);  // fcntl, with the argument that every command can take.

void* as_argument(int number) { return reinterpret_cast<void*>(static_cast<long>(number)); }

/// dup3(2); the number may have been that of an epoll set, and may become one's.
int plain_dup3(int from, int number, int flags) {
  static auto* const plain = VERBATIM_NEXT(dup3);
  const bool concerns_sets = find_set(from) || find_set(number);
  const int done = plain(from, number, flags);
  if (done >= 0 && concerns_sets && !is_child_of_vfork()) {
    drop_set(number);
    duplicate_set(from, number);
  }
  return done;
}

/// Calls what ends `fd`. Epoll sets forget an rsocket with its last number.
template <typename Call>
int ending(int fd, Call&& call) {
  const Inside mark;
  std::shared_ptr<Source> source;
  verbatim_rsource(fd, &source);
  const int result = call();
  if (source && source->is_closed()) forget_in_sets(*source);
  return result;
}

/// A connected pending socket: its numbers become an rsocket together, so exec may keep one of
/// them.
bool stays_pending(int fd) {
  const Kind kind = kind_of(fd);
  return kind == Kind::active || kind == Kind::passive;
}

/// Duplicates `fd` to a number from `least` on; `command` is F_DUPFD or F_DUPFD_CLOEXEC.
int duplicate(int fd, int command, int least) {
  static auto* const plain = next<Control>("fcntl");
  if (is_child_of_vfork()) return plain(fd, command, as_argument(least));
  if (!stays_pending(fd) && !settle_at_any_rate(fd)) return -1;
  const NumbersStay both_are_the_streams;
  const Kind kind = kind_of(fd);
  const int number = plain(fd, command, as_argument(least));
  if (number < 0 || kind == Kind::other) return number;
  if (stays_pending(fd) && add_twin(fd, number)) return number;
  const int flags = command == F_DUPFD_CLOEXEC ? O_CLOEXEC : 0;
  bool done = set_kind(number, kind);
  if (done && kind == Kind::rsocket) {
    done = within([&] { return verbatim_rdup3(fd, number, flags); }) == number;
  }
  if (done) return number;
  const int error = errno;
  set_kind(number, Kind::other);
  within([&] { return close(number); });
  errno = error;
  return -1;
}

/// dup3(2) with different numbers.
int duplicate_onto(int from, int number, int flags) {
  const auto is_plain = [](int fd) { return kind_of(fd) == Kind::other; };
  if ((is_plain(from) && is_plain(number)) || is_child_of_vfork()) {
    return plain_dup3(from, number, flags);
  }
  if (!stays_pending(from) && !settle_at_any_rate(from)) return -1;
  const Kind kind = kind_of(from);
  if (number >= kNumbers) {
    errno = EBADF;  // As for a number beyond the process's limit.
    return -1;
  }
  const bool replaces = is_ours(number) && leave_to_heirs(number);
  disown(number);
  const bool simple = kind != Kind::rsocket && !replaces;
  const int done = simple ? plain_dup3(from, number, flags)
                          : ending(number, [&] { return verbatim_rdup3(from, number, flags); });
  if (done < 0 && replaces) set_kind(number, Kind::rsocket);
  if (done < 0) return -1;
  if (!leave_twins(number)) stop_listening(number);
  {
    const NumbersStay both_are_the_streams;
    set_kind(number, kind);
    if (stays_pending(from)) add_twin(from, number);
    if (kind_of(from) == kind) return number;
  }
  return duplicate_onto(from, number, flags);  // Meanwhile another thread made `from` another kind.
}

int control(Control* plain, int fd, int command, void* argument) {
  adopt_if_inherited(fd);
  const Kind kind = kind_of(fd);
  const bool duplicates = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  if (kind == Kind::other) {
    const int result = plain(fd, command, argument);
    if (duplicates && result >= 0 && find_set(fd)) duplicate_set(fd, result);
    return result;
  }
  const int number = static_cast<int>(reinterpret_cast<long>(argument));
  if (duplicates) return duplicate(fd, command, number);
  // The descriptor's flags are the kernel's; its file is not.
  const bool is_descriptors = command == F_GETFD || command == F_SETFD;
  if (kind != Kind::rsocket || is_descriptors) return plain(fd, command, argument);
  const int result = within([&] { return rfcntl(fd, command, number); });
  return result < 0 && has_become_shadow(fd) ? plain(fd, command, argument) : result;
}

}  // namespace

extern "C" {

EXPORT int close(int fd) {
  static auto* const plain = VERBATIM_NEXT(close);
  const Kind kind = kind_of(fd);
  if (kind == Kind::other && find_set(fd) && !is_child_of_vfork()) drop_set(fd);
  if (kind == Kind::other || is_child_of_vfork()) return plain(fd);
  if (!leave_twins(fd)) stop_listening(fd);
  const bool is_stream = kind == Kind::rsocket && leave_to_heirs(fd);
  disown(fd);
  set_kind(fd, Kind::other);
  if (!is_stream) close_in_sets(fd);
  return is_stream ? ending(fd, [&] { return rclose(fd); }) : plain(fd);
}

EXPORT int dup(int fd) {
  static auto* const plain = VERBATIM_NEXT(dup);
  if (kind_of(fd) != Kind::other) return duplicate(fd, F_DUPFD, 0);
  const int number = plain(fd);
  if (number >= 0 && find_set(fd) && !is_child_of_vfork()) duplicate_set(fd, number);
  return number;
}

EXPORT int dup2(int from, int number) {
  static auto* const plain = VERBATIM_NEXT(dup2);
  return from == number ? plain(from, number) : duplicate_onto(from, number, 0);
}

EXPORT int dup3(int from, int number, int flags) {
  return from == number ? plain_dup3(from, number, flags) : duplicate_onto(from, number, flags);
}

EXPORT int fcntl(int fd, int command, ...) {
  static auto* const plain = next<Control>("fcntl");
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(plain, fd, command, argument);
}

EXPORT int fcntl64(int fd, int command, ...) {
  static auto* const plain = next<Control>("fcntl64");
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(plain, fd, command, argument);
}

}  // extern "C"
