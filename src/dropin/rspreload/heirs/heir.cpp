#include "dropin/rspreload/heirs/heir.h"

#include <array>
#include <cstdarg>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/heirs/message.h"
#include "dropin/rspreload/heirs/owner.h"
#include "dropin/rspreload/heirs/shadow.h"
#include "dropin/rspreload/next.h"

namespace verbatim::rspreload {
namespace {

/// Asks the owner, and waits for its answer.
UniqueFd ask(int line, std::uint32_t serial) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return {};
  const UniqueFd own(ends[0]);
  const bool asked =
      send_over(line, {.word = Word::ask, .serial = serial, .descriptor = UniqueFd(ends[1])});
  if (!asked) return {};
  auto answer = receive_from(own.get(), 0);
  return answer ? std::move(answer->descriptor) : UniqueFd();
}

}  // namespace

void adopt(int fd) {
  if (!replace_kind(fd, Kind::inherited, Kind::other)) return;
  const Inside mark;
  UniqueFd shadow = ask(line_of(fd), serial_of(fd));
  if (!shadow) shadow = make_lost();
  const int flags = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0;
  if (shadow) dup3(shadow.get(), fd, flags);
}

void adopt_if_inherited(int fd) {
  if (kind_of(fd) == Kind::inherited) adopt(fd);
}

void adopt_all() {
  for (const int fd : numbers_of(Kind::inherited)) adopt(fd);
}

void disown(int fd) {
  if (kind_of(fd) != Kind::inherited || !is_sole_heir()) return;
  const Inside mark;
  send_over(line_of(fd), {.word = Word::closed, .serial = serial_of(fd), .descriptor = {}});
}

}  // namespace verbatim::rspreload

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

extern "C" {

// A process that shuts itself in asks for its streams before: a filter of system calls, or a limit
// of descriptors, leaves it read, write and poll, which the shadow needs.

EXPORT int prctl(int option, ...) {
  static auto* const plain =
      next<int(int, unsigned long, unsigned long, unsigned long, unsigned long)>("prctl");
  va_list list;
  va_start(list, option);
  std::array<unsigned long, 4> more;
  for (unsigned long& one : more) one = va_arg(list, unsigned long);
  va_end(list);
  if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS) adopt_all();
  return plain(option, more[0], more[1], more[2], more[3]);
}

EXPORT int setrlimit(__rlimit_resource_t resource, const rlimit* limit) noexcept {
  static auto* const plain = VERBATIM_NEXT(setrlimit);
  if (resource == RLIMIT_NOFILE) adopt_all();
  return plain(resource, limit);
}

EXPORT int setrlimit64(__rlimit_resource_t resource, const rlimit64* limit) noexcept {
  static auto* const plain = VERBATIM_NEXT(setrlimit64);
  if (resource == RLIMIT_NOFILE) adopt_all();
  return plain(resource, limit);
}

// An owner that ends by itself ends no connection that others use.

EXPORT void _exit(int status) {
  static auto* const plain = next<void(int)>("_exit");
  if (!is_child_of_vfork()) serve_to_the_end();
  plain(status);
  __builtin_unreachable();
}

EXPORT void _Exit(int status) noexcept { _exit(status); }

}  // extern "C"
