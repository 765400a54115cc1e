#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/epoll.h>

#include "adapter/progress/task.h"
#include "adapter/progress/timer_queue.h"
#include "base/error.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "base/types.h"

namespace verbatim::adapter {

struct ProgressOptions {
  int event_fd = -1;               // Readable when there is something for `on_event`; -1: none.
  std::function<void()> on_event;  // By the background thread, in no turn.
  std::function<void()> thread_begins;  // By the background thread, before `create` returns.
  /// So long after something has come the background thread looks for more without sleeping.
  TimeNs busy_poll = 0;
};

/// What makes packets and time-outs move: turns. A program that polls a completion queue takes
/// turns in its own thread; one background thread takes them for a program that does not. While the
/// program polls, the background thread keeps away from the sockets, so that a packet does not wake
/// it: it looks once a millisecond whether the polling goes on. Where packets have waited for it,
/// the program spins on memory that the peer writes: for a while it does not rest.
///
/// A turn: receive from each source, serve the timers, let the tasks send what that brought about
/// (acknowledgements, responses, what the window now admits). One turn at a time: `pass_lock_`. In
/// a program that polls, what a turn leaves to say goes with the program's own next post, or at its
/// next poll, or within a millisecond.
class Progress {
 public:
  /// `tasks` outlives it.
  static Result<std::unique_ptr<Progress>> create(const Tasks& tasks, ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// In a forked child: the thread is not there.
  void abandon();

  /// Turns receive from it, too, from now on. It outlives the background thread.
  void add(Source& source);

  /// Whether a poll that finds nothing should take a turn. Where no queue pair uses the wire, few
  /// do: peers write to completion queues themselves.
  bool is_due() {
    return wire_users_.load(std::memory_order_relaxed) != 0 ||
           has_outputs_.load(std::memory_order_relaxed) || ++polls_ % kPollsPerPass == 0;
  }
  /// A turn in the caller's thread, unless somebody else is at it. Whether it did.
  bool poll();
  /// So many more queue pairs that packets may come for.
  void add_wire_users(int count) { wire_users_.fetch_add(count, std::memory_order_relaxed); }
  /// Before the process exits, or a queue pair ends: waits for another thread's turn and sends what
  /// is left, so that the acknowledgements of completions that the program has seen leave. Waits 10
  /// ms at most.
  void finish_turn();
  /// The program will wait for an event: the background thread must serve from now on.
  void serve_events();
  /// As long as it lives, the program is in a call of ours: it does not spin on memory that packets
  /// write.
  class ProgramCall {
   public:
    ~ProgramCall() { progress_.in_use_.store(false, std::memory_order_relaxed); }
    ProgramCall(const ProgramCall&) = delete;
    ProgramCall& operator=(const ProgramCall&) = delete;

   private:
    friend class Progress;
    ProgramCall(Progress& progress, std::atomic<TimeNs>& last, TimeNs now);
    Progress& progress_;
  };
  ProgramCall note_post(TimeNs now) { return {*this, last_post_, now}; }
  /// The program polls and waits for no events: the background thread rests.
  bool is_polled() const { return polled_by_program_.load(std::memory_order_relaxed); }
  TimeNs last_poll() const { return last_poll_.load(std::memory_order_relaxed); }
  void arm_timer(TimeNs at, Qpn task);
  /// The task has something to send at the end of this turn, or the next.
  void note_output(Task& task);
  /// The same of what the program's next poll is to send. False: it polls no longer, and nobody
  /// else is sure to look.
  bool defer_to_poll(Task& task) {
    note_output(task);
    return polled_by_program_.load(std::memory_order_seq_cst);
  }
  /// The background thread wakes for this descriptor of a source until it is closed.
  Result<void> listen(int fd) { return watch(full_epoll_.get(), fd); }

  /// The background thread calls `on_ready` when one of `events` comes of `fd` (borrowed, until
  /// `unwatch`), whether it rests or not, and never within a turn: it may call anything. Called
  /// again for a descriptor, it replaces what was said before.
  Result<void> watch(int fd, std::function<void()> on_ready, std::uint32_t events = EPOLLIN);
  /// No longer; a call that is under way goes on.
  void unwatch(int fd);

  /// Nobody works on the task when this returns, nor will.
  void forget(Task& task);

  /// Changes what turns read.
  template <typename Change>
  void between_passes(Change change) {
    const std::lock_guard guard(pass_lock_);
    change();
  }

 private:
  Progress(const Tasks& tasks, ProgressOptions options)
      : tasks_(tasks), options_(std::move(options)) {}
  Result<void> watch(int epoll, int fd, std::uint32_t events = EPOLLIN) const;
  void run();
  TimeNs last_use(TimeNs now) const;
  bool program_polls(TimeNs now) const;
  bool leaves_packets_unread();
  bool packets_wait();
  bool begin_sleep();
  bool polls_busily(TimeNs now) const;
  std::size_t run_pass(TimeNs now);
  void flush_outputs();
  void serve_timers(TimeNs now);
  void arm_timer_fd();
  void serve_idle_descriptors();
  void serve();
  void wake();

  /// Without queue pairs on the wire, one poll in so many takes a turn, for management datagrams
  /// and for timers, and offers the processor. A turn is a system call, which takes longer than a
  /// message of the direct path.
  static constexpr std::uint32_t kPollsPerPass = 1024;
  // Of this thread. The model spares each poll a call; it asks the program for 4 bytes.
  [[gnu::tls_model("initial-exec")]] static inline thread_local std::uint32_t polls_ = 0;

  const Tasks& tasks_;
  const ProgressOptions options_;
  std::mutex pass_lock_;
  std::vector<Source*> sources_;  // Guarded by pass_lock_, as is the next one.
  std::vector<Task*> flushing_;
  // Turns of `poll` in a row that received nothing. Written under pass_lock_.
  std::atomic<std::uint32_t> idle_passes_{0};

  std::mutex outputs_lock_;               // Guards outputs_.
  std::vector<Task*> outputs_;            // Who has something to say.
  std::atomic<bool> has_outputs_{false};  // A hint: spares a turn the lock.

  std::atomic<int> wire_users_{0};

  TimerQueue timers_;
  std::mutex timer_fd_lock_;  // Orders settings of timer_fd_.
  std::atomic<TimeNs> last_poll_{0};
  std::atomic<TimeNs> last_post_{0};
  // Of several threads in calls of ours, the first to leave clears it: a hint.
  std::atomic<bool> in_use_{false};
  std::atomic<TimeNs> last_event_use_{0};
  std::atomic<clockid_t> user_clock_{};  // Of the thread that polled or posted last.
  /// What the background thread saw of the program when it last looked.
  struct ProgramActivity {
    TimeNs last_use = 0;
    TimeNs computed = 0;  // By the thread that polled or posted last.
  };
  ProgramActivity activity_;  // The background thread's own, as are the next two.
  TimeNs serve_until_ = 0;
  TimeNs last_receipt_ = 0;
  std::atomic<bool> polled_by_program_{false};
  std::atomic<bool> stop_{false};
  std::mutex watched_lock_;  // Guards watched_. Held for a look-up only.
  // Shared with the call that is under way.
  std::map<int, std::shared_ptr<std::function<void()>>> watched_;
  UniqueFd wake_;                 // eventfd.
  TimerFd timer_fd_;              // The earliest deadline.
  UniqueFd idle_epoll_;           // wake_, timer_fd_, the agent: all that it hears while it rests.
  UniqueFd full_epoll_;           // idle_epoll_, and what the sources are told by.
  std::latch liveness_begun_{1};  // The thread has begun its sign of life.
  std::thread thread_;
};

}  // namespace verbatim::adapter
