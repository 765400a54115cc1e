#include "dropin/rspreload/numbers.h"

#include <array>
#include <atomic>
#include <cerrno>

#include <pthread.h>
#include <unistd.h>

namespace verbatim::rspreload {
namespace {

std::array<std::atomic<Kind>, kNumbers> kinds;
std::atomic<int> end = 0;  // No number from here on is ours.
std::atomic<pid_t> process = 0;
thread_local int depth = 0;

void in_child() {
  process = getpid();
  for (int fd = 0; fd < end; ++fd) kinds[static_cast<std::size_t>(fd)] = Kind::other;
}

void remember_process() {
  process = getpid();
  pthread_atfork(nullptr, nullptr, in_child);
}

}  // namespace

Inside::Inside() { ++depth; }
Inside::~Inside() { --depth; }
bool inside() { return depth > 0; }

Kind kind_of(int fd) {
  if (depth > 0 || fd < 0 || fd >= kNumbers) return Kind::other;
  return kinds[static_cast<std::size_t>(fd)];
}

bool set_kind(int fd, Kind kind) {
  if (fd < 0 || fd >= kNumbers) {
    errno = EMFILE;
    return kind == Kind::other;
  }
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (kind != Kind::other) pthread_once(&once, remember_process);
  kinds[static_cast<std::size_t>(fd)] = kind;
  for (int known = end; known <= fd && !end.compare_exchange_weak(known, fd + 1);) {
  }
  return true;
}

bool is_child_of_vfork() { return process != getpid(); }

}  // namespace verbatim::rspreload
