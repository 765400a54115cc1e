#include "ulp/target/tree/srpt_tree.h"

#include <cerrno>

#include <fmt/format.h>

#include "base/log.h"
#include "ulp/target_tree/node.h"

namespace verbatim::ulp::target {
namespace {

/// "0x" and the GID's 32 digits, or its GUID as "5054:00ff:fe12:3456": as ib_srpt has them.
bool is_name_of(const Gid& gid, std::string_view name) {
  std::string digits, guid;
  for (std::size_t i = 0; i < gid.bytes.size(); ++i) {
    digits += fmt::format("{:02x}", gid.bytes[i]);
    if (i >= 8 && i % 2 == 1) guid += (guid.empty() ? "" : ":") + digits.substr(2 * i - 2);
  }
  return name == "0x" + digits || name == guid;
}

}  // namespace

int SrptTree::on_make(const target_tree::Node& directory) {
  if (directory.parent->name != "srpt") return 0;
  for (const Gid& gid : device_.port().gids) {
    if (!is_name_of(gid, directory.name)) continue;
    log(LogLevel::warn, "srpt/{} is kept, and not served: SRP is served by options alone",
        directory.name);
    return 0;
  }
  return EINVAL;
}

}  // namespace verbatim::ulp::target
