#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <infiniband/verbs.h>

#include "api/handles.h"
#include "verbatim/request.h"

namespace verbatim::inline v1::detail {

/// A work request's id: the kind of its owner in the lowest two bits, and a number above.
enum class Side : std::uint64_t { send = 0, receive = 1, shared_receive = 2 };
constexpr std::uint64_t work_id(Side side, std::uint64_t sequence) {
  return sequence << 2 | static_cast<std::uint64_t>(side);
}
/// A shared receive: the number of its queue, and its index there.
constexpr std::uint64_t shared_work_id(std::uint32_t number, std::uint32_t place) {
  return work_id(Side::shared_receive, std::uint64_t{number} << 32 | place);
}

/// The requests of one direction of a queue pair, by sequence from 1: `posted` is the last number;
/// all up to `completed` have completed. The queue's thread writes both counts, and any thread
/// reads them (`DomainHandle::reclaim`).
struct Ring {
  struct Slot {
    Pending* pending = nullptr;
    Operation operation = Operation::none;
  };

  explicit Ring(std::uint32_t of);
  std::uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
  std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  std::uint64_t in_flight() const { return posted() - completed(); }
  bool is_full() const { return in_flight() >= depth; }
  Slot& slot(std::uint64_t sequence) { return slots_[sequence & mask_]; }
  /// The adapter has accepted request `sequence`, which is `posted() + 1`. Returns its slot.
  Slot& push(std::uint64_t sequence, Pending* pending, Operation operation) {
    Slot& place = slot(sequence);
    place.pending = pending;
    place.operation = operation;
    posted_.store(sequence, std::memory_order_relaxed);
    return place;
  }
  /// The last one was refused.
  void pop() { posted_.store(posted() - 1, std::memory_order_relaxed); }
  void set_completed(std::uint64_t sequence) {
    completed_.store(sequence, std::memory_order_release);
  }

  const std::uint32_t depth;
  std::uint64_t signaled = 0;  // The last one that requested a completion.

 private:
  friend struct Queue;
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::vector<Slot> slots_;  // A power of two, at least `depth`.
  const std::uint64_t mask_;
};

struct Connection;

/// A completion queue, and the parties whose requests complete there. It takes a lock only if
/// several threads share it.
struct Queue : std::enable_shared_from_this<Queue> {
  static Result<std::shared_ptr<Queue>> make(const Context& context,
                                             const CompletionQueueOptions& options);
  ~Queue();

  /// Takes completions, then calls callbacks and resumes coroutines. Returns the number of
  /// completions or, if there were none, of calls.
  int poll();
  /// The same for one completion, inlined in the caller (`completions.cpp`).
  void poll_one();
  int wait(std::chrono::nanoseconds timeout);
  /// Waits until `pending` has completed, or the time is over.
  void wait_for(const Pending& pending, std::chrono::nanoseconds timeout);
  bool arm();

  /// From now on, a thread that waits here also takes the connection's events of rdma_cm, so that
  /// receives end when the peer disconnects.
  void watch(Connection& connection);
  void unwatch(Connection& connection);
  /// Takes completions, and leaves callbacks and coroutines to the next poll: for calls in which
  /// the program does not expect to be called back. Requires the lock.
  int collect();

  /// From now on, completions of this queue pair go to `party`. Fails if the queue has no room for
  /// `entries` more.
  Result<void> attach(std::uint32_t number, Party& party, std::uint32_t entries);
  void detach(std::uint32_t number, std::uint32_t entries);

  /// The same for a shared receive queue of `depth` receives. Its number is part of each receive's
  /// id.
  Result<std::uint32_t> attach(SharedReceives& receives, std::uint32_t depth);
  void detach_shared(std::uint32_t number, std::uint32_t depth);

  /// Completes the requests of a ring up to `sequence`: all succeed except the last, which gets the
  /// status of `entry`.
  void complete(Ring& ring, std::uint64_t sequence, const ibv_wc& entry, std::uint32_t bytes);
  void complete_next(Ring& ring, const ibv_wc& entry);
  void complete_with_earlier(Ring& ring, std::uint64_t sequence, const ibv_wc& entry,
                             std::uint32_t bytes);
  /// Cancels the requests that still wait when their queue pair is destroyed.
  void cancel(Ring& ring, std::uint32_t number);
  /// Resumes `pending`'s coroutine when the time is over.
  void start(Timer& timer, Pending& pending, std::chrono::nanoseconds timeout) noexcept;
  /// Completes one request; its callback or coroutine is called after the whole batch.
  void finish(Pending& pending, Status status);

  /// Holds the lock, if there is one. It is recursive, because a callback may post and poll.
  class Guard {
   public:
    explicit Guard(Queue& queue) : mutex_(queue.shared_by_threads ? &queue.mutex : nullptr) {
      if (mutex_ != nullptr) mutex_->lock();
    }
    ~Guard() {
      if (mutex_ != nullptr) mutex_->unlock();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::recursive_mutex* mutex_;
  };

  std::shared_ptr<DeviceHandle> device;
  ibv_comp_channel* channel = nullptr;
  int events = -1;  // An epoll descriptor of `channel` and of connections' event channels.
  ibv_cq* cq = nullptr;
  std::uint32_t entries = 0;
  bool shared_by_threads = false;
  std::chrono::nanoseconds spin{0};
  std::recursive_mutex mutex;

 private:
  static constexpr int kBatch = 16;

  template <typename Look>
  void wait_until(Look look, std::chrono::nanoseconds timeout);
  void ask_for_event();
  void take_events();
  void take_completion_events();
  void sleep(std::chrono::nanoseconds timeout);
  void poll_one_locked();
  void dispatch(const ibv_wc& entry);
  void dispatch_any(const ibv_wc& entry);
  int call_ready();
  int call_overdue();
  std::chrono::nanoseconds until_timer() const;
  int run_ready();
  Result<void> reserve(Call call, std::uint32_t queue_pair, std::uint32_t count);

  std::uint32_t reserved_ = 0;
  std::uint32_t unacknowledged_events_ = 0;
  // Something has completed, or a connection has had an event, since `arm` last said so: a thread
  // that waits for one token takes what belongs to others, too.
  bool has_news_ = false;
  std::unordered_map<std::uint32_t, Party*> parties_;
  std::vector<SharedReceives*> shared_;  // By number; null if destroyed.
  // Caches the party of the last completion. No queue pair has the initial number.
  static constexpr std::uint32_t kNobody = ~0u;
  std::uint32_t last_number_ = kNobody;
  Party* last_ = nullptr;
  Pending* ready_ = nullptr;  // Completed ones with a callback or coroutine to call, in order.
  Pending** ready_end_ = &ready_;
  Timer* timers_ = nullptr;  // Ordered by their end.
  friend class Pending;
};

Status status_of(ibv_wc_status status);

}  // namespace verbatim::inline v1::detail
