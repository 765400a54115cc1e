#pragma once

#include <string>
#include <vector>

#include "fabric/management/management_net.h"

namespace verbatim::fabric {

/// All tables that a subnet manager has programmed, as JSON: nodes with the LIDs and P_Keys of
/// their ports, forwarding tables (two hexadecimal digits a LID), SL to VL tables (a digit each, by
/// input, output and service level); the cables; and what is wrong in the data path.
/// `fabric/check/read_snapshot.h` reads it.
std::string tables_of(const ManagementNet& net, const std::vector<std::string>& data_faults);

}  // namespace verbatim::fabric
