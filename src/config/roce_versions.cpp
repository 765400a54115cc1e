#include "config/roce_versions.h"

#include <algorithm>
#include <cerrno>
#include <ranges>

namespace verbatim::config {

Result<RoceVersions> parse_roce_versions(std::string_view list) {
  RoceVersions versions;
  for (const auto part : std::views::split(list, ',')) {
    const std::string_view word(part);
    if (word != "v1" && word != "v2") {
      return refuse(EINVAL, fmt::format("'{}' is no RoCE version: v1 and v2 are", word));
    }
    const auto version = word == "v1" ? RoceVersion::v1 : RoceVersion::v2;
    if (std::ranges::find(versions, version) != versions.end()) {
      return refuse(EINVAL, fmt::format("RoCE {} is named twice", word));
    }
    versions.push_back(version);
  }
  if (versions.empty()) return refuse(EINVAL, "no RoCE version is named: v1 and v2 are");
  return versions;
}

std::string text_of(const RoceVersions& versions) {
  std::string text;
  for (const RoceVersion version : versions) {
    text.append(text.empty() ? "" : ",").append(version == RoceVersion::v1 ? "v1" : "v2");
  }
  return text;
}

RoceVersions versions_of(std::span<const SocketAddress> addresses) {
  RoceVersions versions;
  for (const SocketAddress& address : addresses) {
    const RoceVersion version = roce_version(address);
    if (std::ranges::find(versions, version) == versions.end()) versions.push_back(version);
  }
  return versions;
}

}  // namespace verbatim::config
