#include "base/net/path.h"

#include <fmt/format.h>

#include "base/overloaded.h"

namespace verbatim {

Path roce_path(const SocketAddress& destination) {
  if (roce_version(destination) == RoceVersion::v1) return RoceV1Path{destination, {}};
  return RoceV2Path{destination, {}};
}

SocketAddress address_of(const Path& path) {
  return std::visit(Overloaded{[](const InfinibandPath&) { return SocketAddress(); },
                               [](const auto& other) { return other.destination; }},
                    path);
}

bool same_source(const Path& a, const Path& b) {
  if (a.index() != b.index()) return false;
  if (const auto* const one = std::get_if<InfinibandPath>(&a)) {
    const auto& other = std::get<InfinibandPath>(b);
    return one->dlid == other.dlid && one->slid == other.slid && one->port == other.port;
  }
  return same_ip(address_of(a), address_of(b));
}

std::string path_text(const Path& path) {
  return std::visit(
      Overloaded{
          [](const RoceV2Path& roce) { return roce.destination.text(); },
          [](const RoceV1Path& roce) { return roce.destination.ip_text() + " (RoCE v1)"; },
          [](const InfinibandPath& infiniband) {
            return fmt::format("LID {}", static_cast<std::uint16_t>(infiniband.dlid));
          },
          [](const StreamPath& stream) { return stream.destination.text() + " (TCP)"; },
      },
      path);
}

}  // namespace verbatim
