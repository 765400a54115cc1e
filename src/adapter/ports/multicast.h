#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "adapter/progress/progress.h"
#include "base/error.h"
#include "base/net/path.h"

namespace verbatim::adapter {

class QueuePair;

/// Multicast groups of UD queue pairs (IBA 10.5): one socket per group and program, whatever the
/// number of members.
class Multicast {
 public:
  /// From `join` until `leave`, packets to a group are received by this program.
  using Join = std::function<Result<void>(const MulticastGroup& group)>;
  using Leave = std::function<void(const MulticastGroup& group)>;
  Multicast(Progress& progress, Join join, Leave leave)
      : progress_(progress), join_(std::move(join)), leave_(std::move(leave)) {}
  /// Fails with EINVAL or ENOMEM.
  Result<void> attach(QueuePair& queue_pair, const MulticastGroup& address);
  /// Whatever port it has now. EINVAL if it is not in the group.
  Result<void> detach(QueuePair& queue_pair, const MulticastGroup& address);
  /// Whether it is in a group.
  bool has(const QueuePair& queue_pair);
  /// Removes it from all groups.
  void forget(QueuePair& queue_pair);
  /// Returns the queue pairs of a group. Called in a pass.
  std::span<QueuePair* const> members(const MulticastGroup& address) const;

 private:
  struct Group {
    MulticastGroup address;
    std::vector<QueuePair*> members;
  };
  void leave(Group& group, QueuePair& queue_pair);
  void drop_empty();

  Progress& progress_;
  const Join join_;
  const Leave leave_;
  std::mutex lock_;            // Taken before the pass lock.
  std::vector<Group> groups_;  // Read in passes, written under both locks.
};

}  // namespace verbatim::adapter
