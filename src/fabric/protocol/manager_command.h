#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace verbatim::fabric::protocol {

/// Which subnet manager runs, and its options: "none", or "opensm -R ftree -P FILE".
struct ManagerCommand {
  bool runs = false;
  std::vector<std::string> options;
  friend bool operator==(const ManagerCommand&, const ManagerCommand&) = default;
};

/// Words are separated by spaces; what is between quotation marks, ' or ", is of one word. EINVAL:
/// another manager, or an option that the fabric sets itself.
Result<ManagerCommand> parse_manager_command(const std::string& text);

}  // namespace verbatim::fabric::protocol
