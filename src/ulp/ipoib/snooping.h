#pragma once

#include <array>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/net/address.h"

/// Which groups the kernel listens to: read from the reports that it sends (IGMP: RFC 1112, 2236,
/// 3376; MLD: RFC 2710, 3810), for a TUN interface does not say.
namespace verbatim::ulp::ipoib {

/// Calls `visit(group, is_member)` for each group that the packet tells of. Sources are not told
/// apart: a member of one is a member.
void read_reports(ByteSpan packet,
                  const std::function<void(const SocketAddress& group, bool is_member)>& visit);

/// Questions to the kernel, as a router's: it answers with reports for all its groups.
struct GeneralQueries {
  std::array<std::byte, 36> ipv4;
  std::array<std::byte, 76> ipv6;
};
GeneralQueries general_queries();

}  // namespace verbatim::ulp::ipoib
