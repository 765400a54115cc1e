#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "adapter/progress/task.h"
#include "arena/arena_header.h"
#include "base/types.h"

namespace verbatim::adapter {

class QueuePair;

/// A random start, so that packets for an object of an earlier program rarely reach a new one.
std::uint32_t random_number();

/// The queue pairs of this program by local number. Look-ups: any thread that knows that the queue
/// pair is not destroyed meanwhile, for example in a pass. Changes: one thread at a time.
class Numbers final : public Tasks {
 public:
  explicit Numbers(Qpn first)
      : first_(first),
        last_(random_number()),
        queue_pairs_(std::make_unique<std::atomic<QueuePair*>[]>(arena::kProgramQueuePairsMax)) {}

  /// Returns null if no queue pair has the number.
  QueuePair* find(Qpn qpn) const;
  QueuePair* find_local(std::uint32_t local_number) const {
    return queue_pairs_[local_number].load(std::memory_order_acquire);
  }
  Task* find_task(Qpn number) const override;
  template <typename Use>
  void for_each(Use use) const {
    for (std::uint32_t i = 0; i < arena::kProgramQueuePairsMax; ++i) {
      if (QueuePair* const queue_pair = find_local(i)) use(*queue_pair);
    }
  }
  /// Returns true if the number is in this program's range.
  bool has(std::uint32_t number) const {
    return number / arena::kProgramQueuePairsMax == first_.value() / arena::kProgramQueuePairsMax;
  }

  /// Returns the next free local number; 0: none is left.
  std::uint32_t take_number();
  Qpn number(std::uint32_t local_number) const { return Qpn(first_.value() + local_number); }
  void add(QueuePair& queue_pair);
  void remove(const QueuePair& queue_pair);

 private:
  const Qpn first_;
  std::uint32_t last_;
  const std::unique_ptr<std::atomic<QueuePair*>[]> queue_pairs_;
};

}  // namespace verbatim::adapter
