#pragma once

#include <rte_flow_driver.h>

#include "offload/driver/device.h"

/// rte_flow_tunnel_*: a rule sends a tunnel's frames to a group of its own, where rules match what
/// is in them. The card takes nothing off before a rule says where the frame goes, so a frame that
/// software gets is as it came, and there is nothing to restore.
namespace verbatim::offload::driver {

int tunnel_decap_set(rte_eth_dev* ethdev, rte_flow_tunnel* tunnel, rte_flow_action** actions,
                     std::uint32_t* count, rte_flow_error* error);
int tunnel_match(rte_eth_dev* ethdev, rte_flow_tunnel* tunnel, rte_flow_item** items,
                 std::uint32_t* count, rte_flow_error* error);
int restore_info(rte_eth_dev* ethdev, rte_mbuf* packet, rte_flow_restore_info* info,
                 rte_flow_error* error);
int release_tunnel_actions(rte_eth_dev* ethdev, rte_flow_action* actions, std::uint32_t count,
                           rte_flow_error* error);
int release_tunnel_items(rte_eth_dev* ethdev, rte_flow_item* items, std::uint32_t count,
                         rte_flow_error* error);

}  // namespace verbatim::offload::driver
