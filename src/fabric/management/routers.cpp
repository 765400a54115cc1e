// How a datagram of QP1 gets into the next subnet (IBA chapter 19). Routers do with it what they do
// with data (fabric/data/walk/forward.h).
#include "fabric/management/management_net.h"
#include "fabric/topology/subnets/gid_prefix.h"

namespace verbatim::fabric {
namespace {

std::uint64_t prefix_of(const Gid& gid) {
  return load_be<std::uint64_t>(std::as_bytes(std::span(gid.bytes)).data());
}
std::uint64_t guid_of(const Gid& gid) {
  return load_be<std::uint64_t>(std::as_bytes(std::span(gid.bytes)).data() + 8);
}

}  // namespace

/// A router's port is not the packet's destination, although it has the LID. SMPs have no GRH.
bool ManagementNet::is_for_another_subnet(const Packet& packet, PortPlace at) const {
  const std::optional<GlobalRoute>& grh = packet.datagram.path.grh;
  if (packet.smp || !grh || topology_.nodes[at.node].kind != NodeKind::router) return false;
  return guid_of(grh->destination) != identity_of(topology_.nodes[at.node], at.port).guid;
}

/// The host's port, if its subnet has the GID's prefix.
std::optional<PortPlace> ManagementNet::port_with(const Gid& gid) const {
  const auto found = ports_by_guid_.find(guid_of(gid));
  if (found == ports_by_guid_.end()) return std::nullopt;
  const wire::PortInfo& port = port_info(found->second);
  if (port.gid_prefix != prefix_of(gid) || port.lid == Lid{}) return std::nullopt;
  return found->second;
}

/// Counts what it cannot forward.
ManagementNet::Out ManagementNet::forward(Packet& packet, PortPlace in) {
  InfinibandPath& path = packet.datagram.path;
  const std::uint64_t prefix = prefix_of(path.grh->destination);
  const bool is_local = is_link_local(prefix) || is_link_local(prefix_of(path.grh->source));
  const auto host = port_with(path.grh->destination);
  PortCounts& counts = counts_[in.node].of(in.port);
  if (is_local || !host || !may_leave_subnet(path.grh->hop_limit)) {
    ++counts.dlid_mapping_errors;
    return std::nullopt;
  }
  for (unsigned number = 1; number <= topology_.nodes[in.node].ports; ++number) {
    const PortPlace out{in.node, static_cast<std::uint8_t>(number)};
    if (port_info(out).gid_prefix != prefix) continue;
    if (out == in) {
      ++counts.looping_errors;
      return std::nullopt;
    }
    --path.grh->hop_limit;
    path.slid = port_info(out).lid;
    path.dlid = port_info(*host).lid;
    return out;
  }
  ++counts.dlid_mapping_errors;
  return std::nullopt;
}

}  // namespace verbatim::fabric
