#include "dropin/rspreload/fd_table.h"

#include <array>
#include <atomic>
#include <cerrno>

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace verbatim::rspreload {
namespace {

struct Number {
  std::atomic<Kind> kind;
  // Stores fds plus one, so that zeroed memory, which costs nothing, is the initial state.
  std::atomic<int> arrival;
  std::atomic<int> beside;
  std::atomic<int> lock;
  std::atomic<int> first;  // Of a pending socket's numbers; 0: this one.
  std::atomic<int> line;   // Inherited.
  std::atomic<std::uint32_t> serial;
};

std::array<Number, kNumbers> numbers;
std::atomic<int> end = 0;  // All fds from here on are `other`.
std::atomic<pid_t> process = 0;
std::atomic<bool> had_rsocket = false;
std::atomic<bool> had_twins = false;
std::atomic<std::uint32_t> last_serial = 0;
std::atomic<int> line_of_child = -1;
std::atomic<bool> sole_heir = true;
void (*first_rsocket_call)() = nullptr;
thread_local int depth = 0;

bool is_in_table(int fd) { return fd >= 0 && fd < kNumbers; }
Number& at(int fd) { return numbers[static_cast<std::size_t>(fd)]; }

Awaited take_awaited(Number& own) {
  return {.arrival = own.arrival.exchange(0) - 1,
          .beside = own.beside.exchange(0) - 1,
          .lock = own.lock.exchange(0) - 1};
}

void in_child() {
  process = getpid();
  had_rsocket = false;
  for (int fd = 0; fd < end && had_twins; ++fd) {
    if (at(fd).first != 0 && awaited_of(first_of(fd)).arrival >= 0) at(fd).kind = Kind::other;
  }
  bool was_heir = false;
  for (int fd = 0; fd < end; ++fd) {
    Number& own = at(fd);
    if (own.kind == Kind::inherited) was_heir = true;
    const Awaited parents = take_awaited(own);
    const Inside mark;
    for (const int number : {parents.arrival, parents.beside, parents.lock}) {
      if (number >= 0) close(number);
    }
    if (own.kind == Kind::rsocket && line_of_child >= 0) {
      own.line = line_of_child + 1;
      own.kind = Kind::inherited;
    } else if (own.kind == Kind::rsocket || own.kind == Kind::converting || parents.arrival >= 0) {
      own.kind = Kind::other;
    }
  }
  sole_heir = !was_heir;
}

void remember_process() {
  process = getpid();
  pthread_atfork(nullptr, [] { sole_heir = false; }, in_child);
}

/// Before the number's kind is known to be an rsocket's.
void note_rsocket(Number& own) {
  had_rsocket = true;
  own.serial = next_serial();
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (first_rsocket_call != nullptr) pthread_once(&once, first_rsocket_call);
}

}  // namespace

Inside::Inside() { ++depth; }
Inside::~Inside() { --depth; }
Outside::Outside() : depth_(depth) { depth = 0; }
Outside::~Outside() { depth = depth_; }
bool inside() { return depth > 0; }

Kind kind_of(int fd) { return depth == 0 && is_in_table(fd) ? at(fd).kind.load() : Kind::other; }

bool has_become_shadow(int fd) {
  const int error = errno;
  if (error != ESTALE && error != EBADF) return false;
  while (is_ours(fd)) sched_yield();
  errno = error;
  return true;
}

bool set_kind(int fd, Kind kind) {
  if (!is_in_table(fd)) {
    errno = EMFILE;
    return kind == Kind::other;
  }
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (kind != Kind::other) pthread_once(&once, remember_process);
  if (kind == Kind::rsocket) note_rsocket(at(fd));
  at(fd).kind = kind;
  for (int known = end; known <= fd && !end.compare_exchange_weak(known, fd + 1);) {
  }
  return true;
}

bool replace_kind(int fd, Kind from, Kind to) {
  if (to == Kind::rsocket) note_rsocket(at(fd));
  return is_in_table(fd) && at(fd).kind.compare_exchange_strong(from, to);
}

Awaited awaited_of(int fd) {
  if (!is_in_table(fd)) return {};
  return {.arrival = at(fd).arrival - 1, .beside = at(fd).beside - 1, .lock = at(fd).lock - 1};
}

void set_awaited(int fd, Awaited awaited) {
  at(fd).arrival = awaited.arrival + 1;
  at(fd).beside = awaited.beside + 1;
  at(fd).lock = awaited.lock + 1;
}

int first_of(int fd) {
  const int first = is_in_table(fd) ? at(fd).first.load() : 0;
  return first == 0 ? fd : first - 1;
}

bool add_twin(int fd, int number) {
  const int first = first_of(fd);
  if (!set_kind(number, kind_of(fd))) return false;
  at(number).first = first + 1;
  return had_twins = true;
}

std::vector<int> twins_of(int fd) {
  std::vector<int> twins;
  if (!had_twins) return twins;
  const int first = first_of(fd);
  for (int number = 0; number < end; ++number) {
    if (number != fd && first_of(number) == first && at(number).kind != Kind::other) {
      twins.push_back(number);
    }
  }
  return twins;
}

bool leave_twins(int fd) {
  if (!had_twins || !is_in_table(fd)) return false;
  const std::vector<int> others = twins_of(fd);
  const bool was_first = at(fd).first.exchange(0) == 0;
  if (others.empty() || !was_first) return !others.empty();
  set_awaited(others.front(), awaited_of(fd));
  set_awaited(fd, {});
  for (const int number : others) at(number).first = others.front() + 1;
  at(others.front()).first = 0;
  return true;
}

std::vector<int> numbers_of(Kind kind) {
  std::vector<int> found;
  for (int fd = 0; fd < end; ++fd) {
    if (at(fd).kind == kind) found.push_back(fd);
  }
  return found;
}

std::uint32_t next_serial() { return ++last_serial; }

std::uint32_t serial_of(int fd) { return is_in_table(fd) ? at(fd).serial.load() : 0; }

int number_with_serial(std::uint32_t serial) {
  for (int fd = 0; fd < end; ++fd) {
    if (at(fd).serial == serial && at(fd).kind == Kind::rsocket) return fd;
  }
  return -1;
}

void set_line_of_child(int line) { line_of_child = line; }

int line_of(int fd) { return is_in_table(fd) ? at(fd).line - 1 : -1; }

void at_first_rsocket(void (*call)()) { first_rsocket_call = call; }

bool is_sole_heir() { return sole_heir; }

bool has_rsockets() { return had_rsocket && !is_child_of_vfork(); }

bool is_child_of_vfork() { return process != getpid(); }

}  // namespace verbatim::rspreload
