#pragma once

#include <bit>
#include <vector>

#include <rte_flow.h>

#include "offload/driver/device.h"

namespace verbatim::offload::driver {

constexpr std::uint16_t kGroups = 256;  // Of programs; tunnels have those above.

/// What stands in the words of a tunnel's pattern or actions (tunnels.cpp); its argument is a
/// Tunnel. Numbers below 0 are a driver's own, for DPDK, whose type has no such number in C++.
constexpr auto kTunnelAction = std::bit_cast<rte_flow_action_type>(-77);
constexpr auto kTunnelItem = std::bit_cast<rte_flow_item_type>(-78);

/// What actions say that is no part of the card's rule.
struct Beside {
  TimeNs age_timeout = 0;  // 0: it does not age.
  void* age_context = nullptr;
  std::uint16_t group_of_tunnel = 0;            // To which a jump goes; 0: as it says.
  std::vector<rte_flow_action_handle*> shared;  // Handles that the rule names.
};

/// Translates actions of a rule of the port. Returns null, or the action that the card does not
/// take.
const rte_flow_action* translate_actions(Port& port, const rte_flow_action* actions,
                                         vnic_rule& rule, Beside& beside);

}  // namespace verbatim::offload::driver
