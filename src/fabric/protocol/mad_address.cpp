#include "fabric/protocol/mad_address.h"

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

}  // namespace verbatim::fabric::protocol
