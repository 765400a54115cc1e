#include "dropin/ibverbs/control/link_local.h"

#include <algorithm>

#include "agent/client/client.h"

namespace verbatim::dropin {

port::AddressVector by_common_family(const adapter::Adapter& adapter,
                                     const port::AddressVector& vector) {
  const port::Port& port = adapter.port();
  const auto gids = port.gids();
  const bool is_roce = !port.is_infiniband() && vector.is_global;
  if (!is_roce || vector.source_gid_index >= gids.size()) return vector;
  const port::GidEntry& source = gids[vector.source_gid_index];
  if (!source.gid.is_link_local() || !vector.dest_gid.is_link_local()) return vector;
  const auto destination = resolve_gid(vector.dest_gid, adapter.node().interface_index);
  if (!destination || destination->family() == source.address.family()) return vector;
  const auto ipv4 = destination->is_ipv4() ? destination : agent::ipv4_of_node_with(*destination);
  const auto own = std::ranges::find_if(gids, [&source](const port::GidEntry& entry) {
    return entry.address.is_ipv4() && entry.gid == gid_of(entry.address) &&
           roce_version(entry.address) == roce_version(source.address);
  });
  if (!ipv4 || own == gids.end()) return vector;
  port::AddressVector by_ipv4 = vector;
  by_ipv4.dest_gid = gid_of(*ipv4);
  by_ipv4.source_gid_index = static_cast<std::uint8_t>(own - gids.begin());
  return by_ipv4;
}

}  // namespace verbatim::dropin
