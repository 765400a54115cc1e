#include "fabric/protocol/mad_address.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace verbatim::fabric::protocol {
namespace {

constexpr std::uint32_t kManagementQpn = 1;
constexpr std::uint32_t kManagementQKey = 0x8001'0000;
constexpr std::uint16_t kPathBits = 0x7f;  // The daemon uses those below the port's LMC count.

}  // namespace

MadAddress management_address(const InfinibandPath& path) {
  MadAddress to{.qpn = kManagementQpn,
                .qkey = kManagementQKey,
                .lid = raw(path.dlid),
                .service_level = path.service_level,
                .path_bits = static_cast<std::uint8_t>(raw(path.slid) & kPathBits)};
  if (path.grh) {
    to.has_grh = 1;
    to.gid = path.grh->destination.bytes;
    to.flow_label = path.grh->flow_label;
    to.hop_limit = path.grh->hop_limit;
    to.traffic_class = path.grh->traffic_class;
  }
  return to;
}

Result<void> answered(const MadRecord& record) {
  const auto error = static_cast<int>(record.status);
  if (error == 0) return {};
  if (error == ETIMEDOUT) {
    return refuse(error,
                  fmt::format("no subnet administrator answers at LID {}", record.address.lid));
  }
  return refuse(error, fmt::format("asking the subnet administrator at LID {}: {}",
                                   record.address.lid, std::strerror(error)));
}

}  // namespace verbatim::fabric::protocol
