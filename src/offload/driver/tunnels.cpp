#include "offload/driver/tunnels.h"

#include <cerrno>
#include <cstring>

#include "offload/driver/words/actions.h"

namespace verbatim::offload::driver {
namespace {

int refuse_tunnel(rte_flow_error* error, int code, const char* why) {
  rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_ACTION, nullptr, why);
  return -code;
}

bool is_known(rte_flow_item_type type) {
  return type == RTE_FLOW_ITEM_TYPE_VXLAN || type == RTE_FLOW_ITEM_TYPE_GENEVE ||
         type == RTE_FLOW_ITEM_TYPE_GRE || type == RTE_FLOW_ITEM_TYPE_NVGRE;
}

/// The same words name the same tunnel. Null: there is no group for another one.
const Tunnel* find(Device& device, const rte_flow_tunnel& said) {
  const std::lock_guard lock(device.rules_lock);
  for (const auto& tunnel : device.tunnels) {
    if (std::memcmp(&tunnel->said, &said, sizeof said) == 0) return tunnel.get();
  }
  const std::size_t group = kGroups + device.tunnels.size();
  if (group == VNIC_GROUPS_MAX) return nullptr;
  return device.tunnels
      .emplace_back(std::make_unique<Tunnel>(Tunnel{said, static_cast<std::uint16_t>(group)}))
      .get();
}

/// Of a port, with words about what is wrong.
const Tunnel* tunnel_of(rte_eth_dev* ethdev, const rte_flow_tunnel& said, rte_flow_error* error) {
  if (!is_known(said.type)) {
    refuse_tunnel(error, ENOTSUP, "tunnels are VXLAN, Geneve and GRE");
    return nullptr;
  }
  const Tunnel* const tunnel = find(*port_of(ethdev).device, said);
  if (tunnel == nullptr) refuse_tunnel(error, ENOSPC, "at most 256 tunnels");
  return tunnel;
}

}  // namespace

int tunnel_decap_set(rte_eth_dev* ethdev, rte_flow_tunnel* tunnel, rte_flow_action** actions,
                     std::uint32_t* count, rte_flow_error* error) {
  const Tunnel* const found = tunnel_of(ethdev, *tunnel, error);
  if (found == nullptr) return -rte_errno;
  *actions = new rte_flow_action{kTunnelAction, found};
  *count = 1;
  return 0;
}

int tunnel_match(rte_eth_dev* ethdev, rte_flow_tunnel* tunnel, rte_flow_item** items,
                 std::uint32_t* count, rte_flow_error* error) {
  const Tunnel* const found = tunnel_of(ethdev, *tunnel, error);
  if (found == nullptr) return -rte_errno;
  // Its mask is not null, so that nobody takes it for half an item.
  *items = new rte_flow_item{kTunnelItem, found, nullptr, found};
  *count = 1;
  return 0;
}

int restore_info(rte_eth_dev*, rte_mbuf*, rte_flow_restore_info*, rte_flow_error* error) {
  return refuse_tunnel(error, EINVAL, "the frame is as it came");
}

int release_tunnel_actions(rte_eth_dev*, rte_flow_action* actions, std::uint32_t, rte_flow_error*) {
  delete actions;
  return 0;
}

int release_tunnel_items(rte_eth_dev*, rte_flow_item* items, std::uint32_t, rte_flow_error*) {
  delete items;
  return 0;
}

}  // namespace verbatim::offload::driver
