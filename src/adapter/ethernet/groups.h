#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "adapter/ethernet/steering.h"
#include "base/error.h"
#include "base/types.h"

namespace verbatim::adapter {

/// Multicast groups of raw packet queue pairs, as flow rules for MAC addresses. One thread at a
/// time.
class FrameGroups {
 public:
  explicit FrameGroups(Steering& steering) : steering_(steering) {}
  /// EINVAL for a GID that has no group's MAC address; errors of `Steering::add`.
  Result<void> attach(Qpn queue_pair, const Gid& gid);
  /// EINVAL if it is not in the group.
  Result<void> detach(Qpn queue_pair, const Gid& gid);
  /// Whether it is in a group.
  bool has(Qpn queue_pair) const;
  /// Forgets the queue pair's groups; the steering removes its rules.
  void forget(Qpn queue_pair);

 private:
  Steering& steering_;
  std::map<std::pair<std::uint32_t, std::array<std::uint8_t, 16>>, FlowTable::RuleId> joined_;
};

}  // namespace verbatim::adapter
