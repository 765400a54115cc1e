#pragma once

#include <string>
#include <vector>

#include "fabric/check/service_levels.h"
#include "fabric/check/snapshot.h"

/// Each function returns what is wrong, a sentence each, and nothing if all is well.
namespace verbatim::fabric {

/// More findings of one kind are counted, not told.
inline constexpr std::size_t kFindingsMax = 20;

/// Cabled hosts without a LID or an active link; LIDs that hosts cannot reach, and why.
std::vector<std::string> find_unreachable(const Snapshot& snapshot);
/// Packets may wait for each other in a circle, also across routers.
std::vector<std::string> find_credit_loops(const Snapshot& snapshot, const ServiceLevels& levels);
/// Parallel cables between two switches, of which one has more than twice the routes of another.
std::vector<std::string> find_unbalanced(const Snapshot& snapshot);
/// P_Key tables without the default partition, keys twice, partitions without a full member.
std::vector<std::string> find_wrong_p_keys(const Snapshot& snapshot);

/// Ports with the same GUID.
std::vector<std::string> find_shared_guids(const Snapshot& snapshot);
/// Service levels for which no switch has a lane.
std::vector<std::string> find_lost_levels(const Snapshot& snapshot);

/// All of the above, and what the daemon has found wrong in the data path.
std::vector<std::string> check(const Snapshot& snapshot, const ServiceLevels& levels);

}  // namespace verbatim::fabric
