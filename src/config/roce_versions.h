#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::config {

/// The RoCE versions of a node's GIDs, each once. The connection manager uses the first, as with
/// the kernel's `default_roce_mode`.
using RoceVersions = std::vector<RoceVersion>;
inline constexpr std::size_t kRoceVersionsMax = 2;

/// Parses "v2", "v1", "v1,v2" or "v2,v1". EINVAL for others.
Result<RoceVersions> parse_roce_versions(std::string_view list);
std::string text_of(const RoceVersions& versions);

/// Returns the versions in `addresses`, in order of their first appearance.
RoceVersions versions_of(std::span<const SocketAddress> addresses);
/// Returns the same address with that version.
inline SocketAddress of_version(const SocketAddress& address, RoceVersion version) {
  return address.with_port(version == RoceVersion::v1 ? 0 : kRocePort);
}

}  // namespace verbatim::config
