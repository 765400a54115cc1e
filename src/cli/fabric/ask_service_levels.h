#pragma once

#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/check/service_levels.h"
#include "fabric/check/snapshot.h"

namespace verbatim::cli {

struct AskedServiceLevels {
  fabric::ServiceLevels levels;
  std::vector<std::string> remarks;  // Which paths could not be asked for, and why.
};

/// Asks the subnet administrators of a fabric for the paths from each host's port, as a program
/// there would. Ports whose administrator does not answer send at service level 0; nothing is known
/// of ports that were not asked for until `deadline`. Says on standard error how far it is if it
/// takes long.
AskedServiceLevels ask_service_levels(const std::string& fabric_name,
                                      const fabric::Snapshot& snapshot, TimeNs deadline);

}  // namespace verbatim::cli
