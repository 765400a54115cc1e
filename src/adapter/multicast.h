#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "adapter/progress/progress.h"
#include "base/error.h"
#include "base/types.h"

namespace verbatim::adapter {

class QueuePair;

/// Multicast groups of UD queue pairs (IBA 10.5): one socket a group and program, whatever the
/// number of its members.
class Multicast {
 public:
  /// From `join` until `leave`, packets of a group come to this program.
  using Join = std::function<Result<void>(const Gid& group)>;
  using Leave = std::function<void(const Gid& group)>;
  Multicast(Progress& progress, Join join, Leave leave)
      : progress_(progress), join_(std::move(join)), leave_(std::move(leave)) {}
  /// EINVAL, ENOMEM.
  Result<void> attach(QueuePair& queue_pair, const Gid& gid);
  /// EINVAL where it is not in the group.
  Result<void> detach(QueuePair& queue_pair, const Gid& gid);
  /// Of all groups.
  void forget(QueuePair& queue_pair);
  /// The queue pairs of a group; during a turn.
  std::span<QueuePair* const> members(const Gid& gid) const;

 private:
  struct Group {
    Gid gid;
    std::vector<QueuePair*> members;
  };
  void leave(Group& group, QueuePair& queue_pair);
  void drop_empty();

  Progress& progress_;
  const Join join_;
  const Leave leave_;
  std::mutex lock_;            // Before the turn lock.
  std::vector<Group> groups_;  // Read during turns, written under both locks.
};

}  // namespace verbatim::adapter
