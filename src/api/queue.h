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

namespace verbatim::detail {

/// What a work request's id says: whose it is, in the lowest two bits, and which, above.
enum class Side : std::uint64_t { send = 0, receive = 1, shared_receive = 2 };
constexpr std::uint64_t work_id(Side side, std::uint64_t sequence) {
  return sequence << 2 | static_cast<std::uint64_t>(side);
}

/// The requests of one direction of a queue pair, by sequence from 1: `posted` is the last one's
/// number; all up to `completed` have ended. Both counts are written by the queue's thread, and
/// read by any (`DomainHandle::reclaim`).
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
  Slot& slot(std::uint64_t sequence) { return slots_[sequence & (slots_.size() - 1)]; }
  /// The request `posted() + 1` is the adapter's.
  void push(Pending* pending, Operation operation);
  /// The last one was refused.
  void pop() { posted_.store(posted() - 1, std::memory_order_relaxed); }
  void set_completed(std::uint64_t sequence) {
    completed_.store(sequence, std::memory_order_release);
  }

  const std::uint32_t depth;
  std::uint64_t signaled = 0;  // The last one that asked for a completion.

 private:
  friend struct Queue;
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::vector<Slot> slots_;  // A power of two of them, at least `depth`.
};

/// A completion queue, and who completes there. It takes a lock only where several threads share
/// it.
struct Queue {
  static Result<std::shared_ptr<Queue>> make(const Context& context,
                                             const CompletionQueueOptions& options);
  ~Queue();

  int poll();
  int wait(std::chrono::nanoseconds timeout);
  bool arm();

  /// From now on, completions of this queue pair go to `party`. Fails where the queue has no room
  /// for `entries` more.
  Result<void> attach(std::uint32_t number, Party& party, std::uint32_t entries);
  void detach(std::uint32_t number, std::uint32_t entries);

  /// Ends the requests of a ring up to `sequence`: all succeed but the last, which ends as `entry`
  /// says.
  void complete(Ring& ring, std::uint64_t sequence, const ibv_wc& entry);
  /// Ends what still waits when its queue pair is destroyed.
  void cancel(Ring& ring, std::uint32_t number);
  /// Ends one request: its callback or coroutine is called after the whole batch.
  void finish(Pending& pending, Status status);

  /// Holds the lock, where there is one. A callback may post and poll: the lock is recursive.
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
  ibv_cq* cq = nullptr;
  std::uint32_t entries = 0;
  bool shared_by_threads = false;
  std::chrono::nanoseconds spin{0};
  std::recursive_mutex mutex;

 private:
  static constexpr int kBatch = 16;

  int poll_once();
  bool sleep(std::chrono::nanoseconds timeout);
  void dispatch(const ibv_wc& entry);
  void run_ready();

  std::uint32_t reserved_ = 0;
  std::uint32_t unacknowledged_events_ = 0;
  std::unordered_map<std::uint32_t, Party*> parties_;
  std::uint32_t last_number_ = 0;  // The party of the last completion, without a look-up.
  Party* last_ = nullptr;
  Pending* ready_ = nullptr;  // Completed, with a callback or coroutine to call: in order.
  Pending** ready_end_ = &ready_;
  friend class Pending;
};

Status status_of(ibv_wc_status status);

}  // namespace verbatim::detail
