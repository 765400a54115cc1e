#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <sys/epoll.h>

#include "adapter/progress/timer_queue.h"
#include "base/error.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "base/types.h"
#include "link/udp/udp.h"
#include "port/route.h"
#include "wire/net/icrc.h"

namespace verbatim::adapter {

class Adapter;
class QueuePair;

/// What makes packets and time-outs move: turns. A program that polls a completion queue takes
/// turns in its own thread; one background thread takes them for a program that does not. While the
/// program polls, the background thread keeps away from the sockets, so that a packet does not wake
/// it: it looks once a millisecond whether the polling goes on. Where packets have waited for it,
/// the program spins on memory that the peer writes: for a while it does not rest.
///
/// A turn: receive, serve the timers, send what that brought about (acknowledgements, responses,
/// what the window now admits). One turn at a time: `pass_lock_`. In a program that polls, what a
/// turn leaves to say goes with the program's own next post, or at its next poll, or within a
/// millisecond.
class Progress {
 public:
  static Result<std::unique_ptr<Progress>> create(Adapter& adapter, const std::vector<int>& sockets,
                                                  int event_fd, std::function<void()> on_event);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// In a forked child: the thread is not there.
  void abandon();

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
  void arm_timer(TimeNs at, Qpn qpn);
  /// The queue pair has something to send at the end of this turn, or the next.
  void note_output(QueuePair& queue_pair);
  /// The same of what the program's next poll is to send. False: it polls no longer, and nobody
  /// else is sure to look.
  bool defer_to_poll(QueuePair& queue_pair) {
    note_output(queue_pair);
    return polled_by_program_.load(std::memory_order_seq_cst);
  }
  /// The background thread wakes for this descriptor until it is closed.
  Result<void> listen(int fd) { return watch(full_epoll_.get(), fd); }

  /// The background thread calls `on_ready` when one of `events` comes of `fd` (borrowed, until
  /// `unwatch`), whether it rests or not, and never within a turn: it may call anything. Called
  /// again for a descriptor, it replaces what was said before.
  Result<void> watch(int fd, std::function<void()> on_ready, std::uint32_t events = EPOLLIN);
  /// No longer; a call that is under way goes on.
  void unwatch(int fd);

  /// Nobody works on the queue pair when this returns, nor will.
  void forget(QueuePair& queue_pair);

  /// Changes what turns read.
  template <typename Change>
  void between_passes(Change change) {
    const std::lock_guard guard(pass_lock_);
    change();
  }

  /// Packets come over this socket (borrowed), too.
  Result<void> receive_from(int fd);
  /// Multicast groups: sockets of their own, served like the others.
  Result<void> join(const Gid& group, const SocketAddress& address,
                    const SocketAddress& node_address, std::uint32_t interface_index);
  /// The same over RoCE v1. EPERM without CAP_NET_RAW.
  Result<void> join_frames(const Gid& group, std::uint32_t interface_index);
  void leave(const Gid& group);

  // Queue pairs over iWARP: `QueuePair::on_stream` is called when their socket has something.
  Result<void> add_stream(int fd, Qpn qpn);
  /// Nothing but its end is to come: polls look at it no more, the background thread does.
  Result<void> await_end(int fd, Qpn qpn);
  void remove_stream(int fd);
  /// Also when it has room, or no longer.
  void await_room(int fd, Qpn qpn, bool awaits);

 private:
  struct Source {
    link::UdpSocket socket;
    Gid group;  // Zero: unicast.
  };
  explicit Progress(Adapter& adapter) : adapter_(adapter) {}
  Result<void> watch(int epoll, int fd, std::uint32_t events = EPOLLIN) const;
  Result<void> add_source(link::UdpSocket socket, const Gid& group);
  void run();
  TimeNs last_use(TimeNs now) const;
  bool program_polls(TimeNs now) const;
  bool leaves_packets_unread();
  bool packets_wait() const;
  bool polls_busily(TimeNs now) const;
  std::size_t run_pass(TimeNs now);
  void flush_outputs();
  std::size_t receive(TimeNs now);
  std::size_t serve_streams(TimeNs now);
  void stop_polling(int fd);
  void on_frame(const link::ReceivedDatagrams& frame, const Source& source, TimeNs now);
  void on_datagrams(const link::ReceivedDatagrams& datagrams, const Source& source, TimeNs now);
  class Reception;
  /// A datagram of those that came together, and whose ICRC is right.
  struct Arrival {
    ByteSpan bytes;
    bool is_response = false;
  };
  static constexpr std::size_t kDatagramsMax = link::kSegmentsMax;
  bool is_good(ByteSpan bytes, const wire::IcrcSeed& seed, std::uint16_t& identification);
  void deliver(std::span<const Arrival> arrivals, const link::ReceivedDatagrams& origin,
               const Source& source, TimeNs now);
  void on_datagram(ByteSpan bytes, const Source& source, Reception& reception);
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

  Adapter& adapter_;
  std::mutex pass_lock_;
  link::UdpReceiver receiver_;        // Guarded by pass_lock_, as are the next four.
  std::optional<PacketRoute> route_;  // Of the datagrams that came last.
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<QueuePair*> flushing_;
  // Turns of `poll` in a row that received nothing. Written under pass_lock_.
  std::atomic<std::uint32_t> idle_passes_{0};

  std::mutex outputs_lock_;               // Guards outputs_.
  std::vector<QueuePair*> outputs_;       // Who has something to say.
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
  int event_fd_ = -1;
  std::function<void()> on_event_;
  std::mutex watched_lock_;  // Guards watched_. Held for a look-up only.
  // Shared with the call that is under way.
  std::map<int, std::shared_ptr<std::function<void()>>> watched_;
  UniqueFd wake_;        // eventfd.
  TimerFd timer_fd_;     // The earliest deadline.
  UniqueFd idle_epoll_;  // wake_, timer_fd_, the agent: all that it hears while it rests.
  UniqueFd full_epoll_;  // idle_epoll_, the sockets and the next one.
  UniqueFd streams_epoll_;
  std::atomic<int> streams_{0};
  std::latch liveness_begun_{1};  // The thread has begun its sign of life.
  std::thread thread_;
};

}  // namespace verbatim::adapter
