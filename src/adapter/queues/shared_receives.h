#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "adapter/progress/progress.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/queues/xrc_domains.h"
#include "arena/arena.h"
#include "base/error.h"
#include "base/types.h"

namespace verbatim::adapter {

/// The shared receive queues of this program by their local numbers. Look-ups: during a turn. What
/// they belong to but their XRC domain is the caller's to count.
class SharedReceives {
 public:
  /// Numbers begin somewhere after `first`, the first of this program's.
  SharedReceives(Arena& arena, Progress& progress, XrcDomains& domains, Qpn first,
                 std::uint32_t begin)
      : arena_(arena), progress_(progress), domains_(domains), first_(first), last_(begin) {}

  /// Capacities come back as given in the queue's `capacity` and `segments_max`. EINVAL, ENOMEM.
  Result<SharedReceiveQueue*> create(const SharedReceiveOptions& wanted);
  /// EBUSY while queue pairs use it. When peers find it no more, `wait_for_peers` waits for those
  /// that are at it; `forget` is called in a turn, before it is gone.
  Result<void> destroy(SharedReceiveQueue* queue, const std::function<void()>& wait_for_peers,
                       const std::function<void(const SharedReceiveQueue&)>& forget);

  /// Whether a queue with that number would be this program's.
  bool has(SrqNumber number) const {
    return raw(number) / kProgramQueuePairsMax == first_.value() / kProgramQueuePairsMax;
  }
  /// An XRC queue of that domain.
  SharedReceiveQueue* find(SrqNumber number, XrcDomain domain) const;
  /// Somebody has told the queue something.
  void on_notified(std::uint32_t local_number);
  /// A program has ended that visited this one: what it may have done and not told.
  void on_attached_peer_gone();

 private:
  static Result<void> check(const SharedReceiveOptions& wanted);
  std::uint32_t take_number();
  void publish(const SharedReceiveQueue& queue, const XrcFile& file);
  void take_notifications(SharedReceiveQueue& queue);

  Arena& arena_;
  Progress& progress_;
  XrcDomains& domains_;
  const Qpn first_;
  std::mutex lock_;  // Before the turn lock. Guards the next one, and changes of the table.
  std::uint32_t last_;
  std::unordered_map<std::uint32_t, std::unique_ptr<SharedReceiveQueue>> queues_;
};

}  // namespace verbatim::adapter
