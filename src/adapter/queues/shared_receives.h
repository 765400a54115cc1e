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

/// The shared receive queues of this program by local number. Look-ups: in a pass. The caller
/// counts users of other objects; this class counts those of XRC domains.
class SharedReceives {
 public:
  /// Numbers begin at a random one after `first`, the program's first.
  SharedReceives(Arena& arena, Progress& progress, XrcDomains& domains, Qpn first,
                 std::uint32_t begin)
      : arena_(arena), progress_(progress), domains_(domains), first_(first), last_(begin) {}

  /// The queue's `capacity` and `segments_max` have the granted values. EINVAL, ENOMEM.
  Result<SharedReceiveQueue*> create(const SharedReceiveOptions& wanted);
  /// EBUSY while queue pairs use it. After peers do not find it any more, `wait_for_peers` waits
  /// for those that use it; `forget` is called in a pass, before the queue is freed.
  Result<void> destroy(SharedReceiveQueue* queue, const std::function<void()>& wait_for_peers,
                       const std::function<void(const SharedReceiveQueue&)>& forget);

  /// Returns true if the number is in this program's range.
  bool has(SrqNumber number) const {
    return raw(number) / kProgramQueuePairsMax == first_.value() / kProgramQueuePairsMax;
  }
  /// Returns the XRC queue, if it is in that domain.
  SharedReceiveQueue* find(SrqNumber number, XrcDomain domain) const;
  /// A peer has notified the queue.
  void on_notified(std::uint32_t local_number);
  /// A process that had attached to this one has ended: handles what it had done without notifying.
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
  std::mutex
      lock_;  // Taken before the pass lock. Protects the next member, and changes of the table.
  std::uint32_t last_;
  std::unordered_map<std::uint32_t, std::unique_ptr<SharedReceiveQueue>> queues_;
};

}  // namespace verbatim::adapter
