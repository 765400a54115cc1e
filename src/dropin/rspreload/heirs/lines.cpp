#include "dropin/rspreload/heirs/lines.h"

#include <array>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/own_numbers.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {

void Forks::before() {
  mutex_.lock();
  if (!has_rsockets()) return;
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  parents_.reset(with_high_number(ends[0]));
  childs_.reset(with_high_number(ends[1]));
  set_line_of_child(childs_.get());
}

bool Forks::in_parent() {
  childs_.reset();
  set_line_of_child(-1);
  const bool has_line = static_cast<bool>(parents_);
  if (has_line) {
    private_.push_back(parents_.get());
    new_.push_back({.end = std::move(parents_), .born = next_serial(), .closed = {}});
  }
  mutex_.unlock();
  return has_line;
}

/// This object is left as it is: the lines and shadows are the parent's.
void Forks::in_child() {
  set_line_of_child(-1);
  if (parents_) close(parents_.get());
  for (const int fd : private_) close(fd);
}

std::vector<Line> Forks::take_new() {
  const std::lock_guard lock(mutex_);
  return std::exchange(new_, {});
}

void Forks::add_private(int fd) {
  const std::lock_guard lock(mutex_);
  private_.push_back(fd);
}

void Forks::remove_private(int fd) {
  const std::lock_guard lock(mutex_);
  std::erase(private_, fd);
}

}  // namespace verbatim::rspreload
