#pragma once

#include <cstdint>

namespace verbatim::fabric {

/// The upper half of the GIDs of a subnet to which no manager has given another one (IBA 4.1.1).
inline constexpr std::uint64_t kDefaultGidPrefix = 0xfe80'0000'0000'0000;

/// No router forwards packets with such a GID: it is valid in each subnet.
constexpr bool is_link_local(std::uint64_t gid_prefix) {
  return gid_prefix >> 54 == kDefaultGidPrefix >> 54;
}

}  // namespace verbatim::fabric
