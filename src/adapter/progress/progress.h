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

#include "adapter/progress/attention.h"
#include "adapter/progress/task.h"
#include "adapter/progress/timer_queue.h"
#include "base/error.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "base/types.h"

namespace verbatim::adapter {

struct ProgressOptions {
  int event_fd = -1;                    // Readable when `on_event` should be called; -1: none.
  std::function<void()> on_event;       // Called by the background thread, outside of passes.
  std::function<void()> thread_begins;  // Called by the background thread, before `create` returns.
  /// After packets arrive, the background thread polls this long before it sleeps again.
  TimeNs busy_poll = 0;
};

/// Receives packets, serves timers and sends, in *passes*. A program that polls runs passes in its
/// own thread; otherwise the background thread runs them. While the program polls, the background
/// thread does not wait on the sockets: it wakes once a millisecond to see whether the program
/// still polls. If it then finds packets that nobody read while the program computed (it spins on
/// memory that packets write), it serves packets itself for a while.
///
/// A pass receives from each source, serves each task whose timer is due once, and lets the tasks
/// send what resulted (acknowledgements, responses, requests that the window now admits). One pass
/// at a time: `pass_lock_`. In a program that polls, output that a pass defers is sent with the
/// program's next post, at its next poll, or within a millisecond.
class Progress {
 public:
  /// Requires that `tasks` outlives it.
  static Result<std::unique_ptr<Progress>> create(const Tasks& tasks, ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Called in a forked child, in which the thread does not exist.
  void abandon();

  /// Passes also receive from `source` from now on. It must outlive the background thread.
  void add(Source& source);

  /// Returns true if a poll of an empty CQ should run a pass: always if a queue pair uses the wire
  /// or output is pending, else one time in kPollsPerPass.
  bool is_due() {
    return wire_users_.load(std::memory_order_relaxed) != 0 ||
           has_outputs_.load(std::memory_order_relaxed) || ++polls_ % kPollsPerPass == 0;
  }
  /// Runs one pass in the calling thread. Returns false if another thread is running one, or none
  /// is due.
  bool poll();
  /// Adds to the number of queue pairs that may receive packets.
  void add_wire_users(int count) { wire_users_.fetch_add(count, std::memory_order_relaxed); }
  /// Called before the process exits or a queue pair ends: waits 10 ms at most for a running pass,
  /// then sends pending output, so that completions that the program has seen are acknowledged.
  void finish_turn();
  /// The program will wait for an event: the background thread must run passes from now on.
  void serve_events();
  /// The calling thread attends to what comes (`Attention`). Returns the descriptor that becomes
  /// readable when something does.
  int attend() {
    attention_.begin();
    return full_epoll_.get();
  }
  Attention& attention() { return attention_; }
  /// Scope object: the program is inside a verbs call, so the background thread does not take it
  /// for one that spins on memory.
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
  /// Returns true if the program polls and waits for no events: the background thread idles.
  bool is_polled() const { return polled_by_program_.load(std::memory_order_relaxed); }
  /// Within a pass: it is the background thread's, so that the program may be doing anything.
  bool is_unattended() const { return is_unattended_; }
  TimeNs last_poll() const { return last_poll_.load(std::memory_order_relaxed); }
  void arm_timer(TimeNs at, Qpn task);
  /// The task has output for the end of this pass, or the next one.
  void note_output(Task& task);
  /// Queues output for the program's next poll. Returns false if the program no longer polls; the
  /// caller must then send at once.
  bool defer_to_poll(Task& task) {
    note_output(task);
    return polled_by_program_.load(std::memory_order_seq_cst);
  }
  /// The background thread wakes for this descriptor of a source until it is closed.
  Result<void> listen(int fd) { return watch(full_epoll_.get(), fd); }

  /// The background thread calls `on_ready` when one of `events` occurs on `fd` (borrowed, until
  /// `unwatch`), whether it idles or not, and never inside a pass: so it may call anything. A
  /// second call for a descriptor replaces the first.
  Result<void> watch(int fd, std::function<void()> on_ready, std::uint32_t events = EPOLLIN);
  /// Ends `watch`; a call that has begun is completed.
  void unwatch(int fd);

  /// When it returns, no thread works on the task, and none will.
  void forget(Task& task);

  /// Calls `change` while no pass runs, to change what passes read.
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
  std::size_t receive(TimeNs now);
  void flush_outputs();
  void serve_timers(TimeNs now);
  void arm_timer_fd();
  bool serve_idle_descriptors();
  void serve();
  void wake();

  /// Without queue pairs on the wire, one poll in this many runs a pass, for management datagrams
  /// and timers, and yields the CPU. A pass makes a system call, which takes longer than a message
  /// on the direct path.
  static constexpr std::uint32_t kPollsPerPass = 1024;
  // Per thread. This TLS model saves a function call per poll and needs 4 bytes of the program's
  // static TLS.
  [[gnu::tls_model("initial-exec")]] static inline thread_local std::uint32_t polls_ = 0;

  const Tasks& tasks_;
  const ProgressOptions options_;
  std::mutex pass_lock_;
  std::vector<Source*> sources_;  // Protected by pass_lock_, like the next one.
  std::vector<Task*> flushing_;
  std::vector<TimerQueue::Entry> due_;  // Tasks whose timers are being served.
  bool is_unattended_ = false;
  std::atomic<bool> asks_kernel_{false};  // Some source does.
  // Consecutive passes of `poll` that received nothing. Written under pass_lock_.
  std::atomic<std::uint32_t> idle_passes_{0};

  std::mutex outputs_lock_;               // Protects outputs_.
  std::vector<Task*> outputs_;            // Tasks with pending output.
  std::atomic<bool> has_outputs_{false};  // A hint, which saves a pass the lock.

  std::atomic<int> wire_users_{0};

  TimerQueue timers_;
  std::mutex timer_fd_lock_;  // Orders settings of timer_fd_.
  std::atomic<TimeNs> last_poll_{0};
  std::atomic<TimeNs> last_post_{0};
  // With several threads inside verbs calls, the first that returns clears it: a hint.
  std::atomic<bool> in_use_{false};
  std::atomic<TimeNs> last_event_use_{0};
  std::atomic<clockid_t> user_clock_{};  // Of the thread that polled or posted last.
  /// What the background thread saw of the program at its last check.
  struct ProgramActivity {
    TimeNs last_use = 0;
    TimeNs computed = 0;  // CPU time of the thread that polled or posted last.
  };
  ProgramActivity activity_;  // For the background thread only, like the next two.
  TimeNs serve_until_ = 0;
  TimeNs last_receipt_ = 0;
  std::atomic<bool> polled_by_program_{false};
  Attention attention_;
  std::atomic<bool> stop_{false};
  std::mutex watched_lock_;  // Protects watched_. Held for a look-up only.
  // Shared with a call that has begun.
  std::map<int, std::shared_ptr<std::function<void()>>> watched_;
  UniqueFd wake_;        // eventfd.
  TimerFd timer_fd_;     // Set to the earliest deadline.
  UniqueFd idle_epoll_;  // wake_, timer_fd_ and the agent: all that it waits for while it idles.
  UniqueFd full_epoll_;  // idle_epoll_, and the sources' descriptors.
  std::latch liveness_begun_{1};  // The thread has begun its Liveness.
  std::thread thread_;
};

}  // namespace verbatim::adapter
