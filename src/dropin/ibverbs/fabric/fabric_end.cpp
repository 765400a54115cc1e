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

/// Opens the end at a port of the node.
Result<adapter::InfinibandEnd> open_end(const fabric::protocol::FabricFolder& folder,
                                        const adapter::Membership& membership, unsigned number) {
  auto connection = folder.connect();
  if (!connection) return std::unexpected(connection.error());
  auto link =
      link::FabricLink::attach(std::move(*connection), folder.path(),
                               {.host = fmt::format("{:#x}", membership.node.guid),
                                .port = static_cast<std::uint8_t>(number),
                                .qpn_range = membership.first_qpn.value() >> kQpnRangeBits});
  if (!link) return std::unexpected(link.error());
  const arena::InfinibandPort& port = membership.node.network.infiniband[number - 1];
  adapter::InfinibandEnd end{.gid = arena::gid_of(port),
                             .link = nullptr,
                             .lids = lids_of(port),
                             .pkeys = pkeys_of(port),
                             .report_bad_key = [to = link->get()](auto trap, const auto& bad) {
                               to->report_bad_key(trap, bad);
                             }};
  end.link = std::move(*link);
  return end;
}

void follow_port(const arena::InfinibandPort& before, const arena::InfinibandPort& now,
                 port::Port& port, adapter::Adapter& adapter) {
  using adapter::AsyncEventType;
  adapter::PortEvents& events = adapter.port_events();
  if (lids_of(before) != lids_of(now)) {
    port.set_lids(lids_of(now));
    events.tell(port, AsyncEventType::lid_change);
  }
  if (before.gid_prefix != now.gid_prefix) {
    port.set_gid_prefix(now.gid_prefix);
    events.tell(port, AsyncEventType::gid_change);
  }
  if (before.pkeys != now.pkeys) {
    adapter.set_pkeys(port, pkeys_of(now));
    events.tell(port, AsyncEventType::pkey_change);
  }
  if (before.sm_lid != now.sm_lid || before.sm_service_level != now.sm_service_level) {
    events.tell(port, AsyncEventType::sm_change);
  }
  if (before.reregistrations != now.reregistrations) {
    events.tell(port, AsyncEventType::client_reregister);
  }
  // A port that is down has none.
  if (before.is_active() && now.is_active() && before.rate_mbps != now.rate_mbps) {
    events.tell(port, AsyncEventType::device_speed_change);
  }
  events.change(port,
                {.gids = 1, .is_active = now.is_active(), .active_mtu = arena::active_mtu(now)});
}

}  // namespace

Result<void> join_fabric(adapter::Membership& membership) {
  arena::Node& node = membership.node;
  const auto folder = fabric::protocol::FabricFolder::of(std::string(node.fabric.view()));
  if (!folder) return std::unexpected(folder.error());
  for (unsigned number = 1; number <= node.network.infiniband.size(); ++number) {
    auto end = open_end(*folder, membership, number);
    if (!end) return std::unexpected(end.error());
    membership.infiniband.push_back(std::move(*end));
  }
  // GIDs have no address: that is how a port knows InfiniBand.
  for (arena::GidEntry& entry : node.gids) entry.address = {};
  return {};
}

void follow_fabric(const arena::NetworkState& before, const arena::NetworkState& now,
                   adapter::Adapter& adapter) {
  for (std::size_t i = 0; i < adapter.ports().size(); ++i) {
    follow_port(before.infiniband[i], now.infiniband[i], adapter.port(static_cast<unsigned>(i + 1)),
                adapter);
  }
  adapter.follow_ports();
}

}  // namespace verbatim::dropin
