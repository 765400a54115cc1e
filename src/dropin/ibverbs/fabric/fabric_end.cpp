#include "dropin/ibverbs/fabric/fabric_end.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "fabric/protocol/fabric_folder.h"
#include "link/fabric/fabric_link.h"

namespace verbatim::dropin {
namespace {

constexpr unsigned kQpnRangeBits = 14;  // An end gets what is for 2^14 queue pair numbers.
static_assert(adapter::kProgramQueuePairsMax == 1u << kQpnRangeBits);

port::LidRange lids_of(const arena::InfinibandPort& port) {
  return {.base = port.lid, .lmc = port.lmc};
}

std::vector<PKey> pkeys_of(const arena::InfinibandPort& port) {
  std::vector<PKey> pkeys;
  for (const std::uint16_t pkey : port.pkeys) pkeys.push_back(PKey{pkey});
  return pkeys;
}

}  // namespace

Result<std::unique_ptr<FabricManagement>> join_fabric(adapter::Membership& membership) {
  arena::Node& node = membership.node;
  if (membership.only_direct) {
    return refuse(EOPNOTSUPP, "VERBATIM_PATH=direct: packets of a fabric go through its switches");
  }
  membership.memory.reset();  // No direct path: all packets go through the switches.
  const auto folder = fabric::protocol::FabricFolder::of(std::string(node.fabric.view()));
  if (!folder) return std::unexpected(folder.error());
  auto connection = folder->connect();
  if (!connection) return std::unexpected(connection.error());
  auto link =
      link::FabricLink::attach(std::move(*connection), folder->path(),
                               {.host = fmt::format("{:#x}", node.guid),
                                .qpn_range = membership.first_qpn.value() >> kQpnRangeBits});
  if (!link) return std::unexpected(link.error());
  auto management = FabricManagement::open(node);
  if (!management) return management;
  membership.infiniband = std::move(*link);
  membership.lids = lids_of(node.network.infiniband);
  membership.pkeys = pkeys_of(node.network.infiniband);
  // Its GIDs have no address: that is how a port knows InfiniBand.
  for (arena::GidEntry& entry : node.gids) entry.address = {};
  return management;
}

void follow_fabric(const arena::InfinibandPort& before, const arena::InfinibandPort& now,
                   adapter::Adapter& adapter) {
  using adapter::AsyncEventType;
  if (lids_of(before) != lids_of(now)) {
    adapter.port().set_lids(lids_of(now));
    adapter.port_events().tell(AsyncEventType::lid_change);
  }
  if (before.pkeys != now.pkeys) {
    adapter.set_pkeys(pkeys_of(now));
    adapter.port_events().tell(AsyncEventType::pkey_change);
  }
  if (before.sm_lid != now.sm_lid || before.sm_service_level != now.sm_service_level) {
    adapter.port_events().tell(AsyncEventType::sm_change);
  }
}

}  // namespace verbatim::dropin
