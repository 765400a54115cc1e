#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <signal.h>
#include <sys/epoll.h>

#include "base/os/unique_fd.h"
#include "base/time.h"
#include "ulp/sockets/source.h"

namespace verbatim::ulp::sockets {

/// The sources in one of the program's epoll sets. The kernel keeps the other descriptors of the
/// set, and one of ours, `inner_`, which is readable if a source's handle is.
///
///     program's epoll set ---- its files, pipes, TCP sockets
///                         `--- inner_ ---- handle of each source
///                                     `--- kick_: sources were added while a thread sleeps
///
/// The wait call itself turns the readiness: it looks at sources that were in use lately (hot), in
/// user space, and at the kernel every few calls. It sleeps in the kernel when all are armed; from
/// then on they are cold, and only those are looked at whose handle the kernel names, or which
/// somebody else has changed (`Source::edges`).
class EpollSet {
 public:
  /// epoll_pwait(2) of the C library, in which a thread may be cancelled.
  using Sleep = int(int set, epoll_event* events, int most, int timeout_ms, const sigset_t* mask);

  /// `program`: the descriptor of the program's set. Returns null and sets errno.
  static std::shared_ptr<EpollSet> make(int program);

  // epoll_ctl(2) for sources; 0 or an errno value.
  int add(int fd, std::shared_ptr<Source> source, const epoll_event& event);
  int modify(int fd, const epoll_event& event);
  int remove(int fd);
  bool has(int fd);
  /// The program has closed this number.
  void close(int fd);
  /// The program has closed the source's last descriptor.
  void forget(const Source& source);

  /// What the kernel has reported to a thread that began to wait when there were no sources,
  /// without our own entry: returns how many are left.
  int others(std::span<epoll_event> events);
  /// epoll_pwait(2).
  int wait(std::span<epoll_event> events, int timeout_ms, const sigset_t* mask, Sleep* in_kernel);

 private:
  struct Item {
    int fd = -1;
    epoll_event event{};
    std::shared_ptr<Source> source;
    std::uint32_t edges = 0;  // Those that were reported.
    bool changed = true;      // By epoll_ctl: reported even without a new edge.
    bool hot = true;
    unsigned idle_looks = 0;
    bool disabled = false;  // EPOLLONESHOT, reported.
  };

  struct Found {
    TimeNs at = 0;
    epoll_event event{};
  };

  explicit EpollSet(int program) : program_(program) {}
  Item* find(int fd);
  void take_out(std::size_t at);
  void erase(std::size_t at);
  void watch(const Item& item);
  void unwatch(const Source& source);
  /// Returns true if it was this source, which is still in the inner set.
  bool unpark(int fd, const Source* source);
  void rebuild();
  void kick();

  /// Returns true if the item's source has a successor, which takes its place.
  bool succeed(Item& item);
  void drop_replaced();

  // All return the number of events, or -1.
  int look(std::span<epoll_event> events, bool surely_at_kernel);
  int sweep(std::span<epoll_event> events);
  int look_at_kernel(std::span<epoll_event> events);
  int take_own(std::span<epoll_event> events);
  int sleep(std::unique_lock<std::mutex>& lock, std::span<epoll_event> events, int timeout_ms,
            const sigset_t* mask, Sleep* in_kernel);
  void take_fired();
  bool report(Item& item, epoll_event& event);
  bool has_quick() const;
  bool arm();
  bool all_cold();

  std::mutex mutex_;
  const int program_;
  UniqueFd inner_;
  UniqueFd kick_;
  std::vector<Item> items_;
  std::unordered_map<int, std::size_t> places_;
  /// What the program has removed, by its number. It stays in the inner set until it fires: some
  /// programs remove and add a socket for each request, and each change there is a system call.
  std::unordered_map<int, std::shared_ptr<Source>> parked_;
  bool has_begun_ = false;  // A source was added.
  bool has_replaced_ = false;
  std::size_t next_ = 0;      // Where the next sweep begins.
  std::vector<Found> found_;  // By a sweep: a member for its memory.
  unsigned waits_without_kernel_ = 0;
  unsigned sleepers_ = 1;  // Threads in the kernel; before the first add there may be any number.
};

}  // namespace verbatim::ulp::sockets
