#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "adapter/ethernet/steering.h"
#include "base/error.h"
#include "base/types.h"

namespace verbatim::adapter {

/// Multicast groups of raw packet queue pairs: MAC addresses, and flow rules. One thread at a time.
class FrameGroups {
 public:
  explicit FrameGroups(Steering& steering) : steering_(steering) {}
  /// EINVAL for a GID that has no group's MAC address; what `Steering::add` says.
  Result<void> attach(Qpn queue_pair, const Gid& gid);
  /// EINVAL where it is not in the group.
  Result<void> detach(Qpn queue_pair, const Gid& gid);
  /// Its rules are the steering's to remove.
  void forget(Qpn queue_pair);

 private:
  Steering& steering_;
  std::map<std::pair<std::uint32_t, std::array<std::uint8_t, 16>>, FlowTable::RuleId> joined_;
};

}  // namespace verbatim::adapter
