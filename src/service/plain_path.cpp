#include "service/plain_path.h"

#include <cerrno>

#include <fmt/format.h>
#include <sys/un.h>

namespace verbatim::service {

Result<void> check_plain_path(const std::string& path) {
  constexpr std::size_t kBytesMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= kBytesMax) return {};
  return refuse(ENAMETOOLONG,
                fmt::format("{}: programs reach no socket whose path has more than {} bytes, and "
                            "this one has {}: set XDG_RUNTIME_DIR, for all programs of the node, "
                            "to a folder of yours with mode 0700 and a shorter path",
                            path, kBytesMax, path.size()));
}

}  // namespace verbatim::service
