#include "offload/driver/words/actions.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <rte_byteorder.h>

#include "offload/driver/words/tunnel_header.h"

namespace verbatim::offload::driver {
namespace {

bool add(vnic_rule& rule, std::uint16_t kind, std::uint16_t port, std::uint32_t value) {
  if (rule.action_count == VNIC_ACTIONS_MAX) return false;
  rule.actions[rule.action_count++] = {kind, port, value, {}};
  return true;
}

bool add_address(vnic_rule& rule, std::uint16_t kind, const void* address, std::size_t size) {
  if (!add(rule, kind, 0, 0)) return false;
  std::memcpy(rule.actions[rule.action_count - 1].bytes, address, size);
  return true;
}

/// The argument of an action.
template <typename Conf>
const Conf& conf(const rte_flow_action& action) {
  return *static_cast<const Conf*>(action.conf);
}

bool meter(Port& port, std::uint32_t number, vnic_rule& rule) {
  const std::lock_guard lock(port.device->rules_lock);
  const auto found = port.meters.find(number);
  return found != port.meters.end() && add(rule, VNIC_ACTION_METER, 0, found->second->wanted.id);
}

/// An action that rules share. A rule has one counter besides its own, and one age.
bool name_shared(const Port& port, const void* handle, vnic_rule& rule, Beside& beside) {
  const std::lock_guard lock(port.device->rules_lock);
  rte_flow_action_handle* const action = port.shared_action(handle);
  if (action == nullptr) return false;
  const auto is_alike = [action](const rte_flow_action_handle* other) {
    return (action->counter != nullptr && other->counter != nullptr) ||
           (action->age != nullptr && other->age != nullptr);
  };
  if (std::ranges::any_of(beside.shared, is_alike)) return false;
  if (action->age != nullptr && beside.age_timeout != 0) return false;
  beside.shared.push_back(action);
  if (action->counter != nullptr) rule.shared_counter = action->counter->id + 1;
  return action->meter == nullptr || add(rule, VNIC_ACTION_METER, 0, action->meter->wanted.id);
}

/// The rule has no age of rules that share it.
bool age(const rte_flow_action_age& said, Beside& beside) {
  beside.age_timeout = said.timeout * kSecond;
  beside.age_context = said.context;
  return beside.age_timeout != 0 && std::ranges::all_of(beside.shared, [](const auto* other) {
           return other->age == nullptr;
         });
}

/// The rules of a tunnel are in a group of its own.
bool jump(std::uint32_t group, std::uint16_t group_of_tunnel, vnic_rule& rule) {
  if (group >= kGroups) return false;
  return add(rule, VNIC_ACTION_JUMP, 0, group_of_tunnel != 0 ? group_of_tunnel : group);
}

bool output(const Device& device, std::uint32_t id, vnic_rule& rule) {
  for (const auto& port : device.ports) {
    if (port->id == id) return add(rule, VNIC_ACTION_OUTPUT, port->index, 0);
  }
  return false;  // Of another card or driver.
}

bool translate_vlan(const rte_flow_action& action, vnic_rule& rule) {
  switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN:
      return add(rule, VNIC_ACTION_PUSH_VLAN, 0,
                 rte_be_to_cpu_16(conf<rte_flow_action_of_push_vlan>(action).ethertype));
    case RTE_FLOW_ACTION_TYPE_OF_POP_VLAN:
      return add(rule, VNIC_ACTION_POP_VLAN, 0, 0);
    case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID:
      return add(rule, VNIC_ACTION_SET_VLAN_ID, 0,
                 rte_be_to_cpu_16(conf<rte_flow_action_of_set_vlan_vid>(action).vlan_vid));
    case RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP:
      return add(rule, VNIC_ACTION_SET_VLAN_PRIORITY, 0,
                 conf<rte_flow_action_of_set_vlan_pcp>(action).vlan_pcp);
    default:
      return false;
  }
}

bool translate_edit(const rte_flow_action& action, vnic_rule& rule) {
  switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_SET_MAC_DST:
      return add_address(rule, VNIC_ACTION_SET_DESTINATION_MAC, action.conf, 6);
    case RTE_FLOW_ACTION_TYPE_SET_MAC_SRC:
      return add_address(rule, VNIC_ACTION_SET_SOURCE_MAC, action.conf, 6);
    case RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC:
      return add_address(rule, VNIC_ACTION_SET_SOURCE_IPV4, action.conf, 4);
    case RTE_FLOW_ACTION_TYPE_SET_IPV4_DST:
      return add_address(rule, VNIC_ACTION_SET_DESTINATION_IPV4, action.conf, 4);
    case RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC:
      return add_address(rule, VNIC_ACTION_SET_SOURCE_IPV6, action.conf, 16);
    case RTE_FLOW_ACTION_TYPE_SET_IPV6_DST:
      return add_address(rule, VNIC_ACTION_SET_DESTINATION_IPV6, action.conf, 16);
    case RTE_FLOW_ACTION_TYPE_SET_TTL:
      return add(rule, VNIC_ACTION_SET_HOP_LIMIT, 0,
                 conf<rte_flow_action_set_ttl>(action).ttl_value);
    case RTE_FLOW_ACTION_TYPE_SET_TP_SRC:
      return add(rule, VNIC_ACTION_SET_SOURCE_PORT, 0,
                 rte_be_to_cpu_16(conf<rte_flow_action_set_tp>(action).port));
    case RTE_FLOW_ACTION_TYPE_SET_TP_DST:
      return add(rule, VNIC_ACTION_SET_DESTINATION_PORT, 0,
                 rte_be_to_cpu_16(conf<rte_flow_action_set_tp>(action).port));
    default:
      return translate_vlan(action, rule);
  }
}

/// A tunnel's header, in pieces that fit into actions.
bool add_tunnel(std::span<const std::uint8_t> header, vnic_rule& rule) {
  if (header.empty() || !add(rule, VNIC_ACTION_ENCAPSULATE, 0, header.size())) return false;
  while (!header.empty()) {
    const std::size_t size = std::min(header.size(), sizeof(vnic_action::bytes));
    if (!add_address(rule, VNIC_ACTION_HEADER, header.data(), size)) return false;
    header = header.subspan(size);
  }
  return true;
}

bool translate_tunnel(const rte_flow_action& action, vnic_rule& rule) {
  switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP:
      return add_tunnel(header_of(conf<rte_flow_action_vxlan_encap>(action).definition), rule);
    case RTE_FLOW_ACTION_TYPE_RAW_ENCAP: {
      const auto& raw = conf<rte_flow_action_raw_encap>(action);
      return add_tunnel({raw.data, raw.data + raw.size}, rule);
    }
    case RTE_FLOW_ACTION_TYPE_VXLAN_DECAP:
    case RTE_FLOW_ACTION_TYPE_NVGRE_DECAP:
      return add(rule, VNIC_ACTION_DECAPSULATE, 0, 0);
    case RTE_FLOW_ACTION_TYPE_RAW_DECAP:
      return conf<rte_flow_action_raw_decap>(action).size != 0 &&
             add(rule, VNIC_ACTION_DECAPSULATE, 0, conf<rte_flow_action_raw_decap>(action).size);
    default:
      return translate_edit(action, rule);
  }
}

bool translate(Port& port, const rte_flow_action& action, vnic_rule& rule, Beside& beside) {
  const Device& device = *port.device;
  if (action.type == kTunnelAction) {
    beside.group_of_tunnel = static_cast<const Tunnel*>(action.conf)->group;
    return true;
  }
  switch (action.type) {
    case RTE_FLOW_ACTION_TYPE_VOID:
    case RTE_FLOW_ACTION_TYPE_COUNT:  // Every rule counts.
      return true;
    case RTE_FLOW_ACTION_TYPE_RSS:  // What is marked is spread over all queues.
      return rule.domain == VNIC_DOMAIN_INGRESS;
    case RTE_FLOW_ACTION_TYPE_PORT_ID: {
      const auto* const to = static_cast<const rte_flow_action_port_id*>(action.conf);
      return to->original == 0 && output(device, to->id, rule);
    }
    case RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT:
      return output(device, static_cast<const rte_flow_action_ethdev*>(action.conf)->port_id, rule);
    case RTE_FLOW_ACTION_TYPE_DROP:
      return add(rule, VNIC_ACTION_DROP, 0, 0);
    case RTE_FLOW_ACTION_TYPE_MARK:
      return rule.domain == VNIC_DOMAIN_INGRESS &&
             add(rule, VNIC_ACTION_MARK, 0,
                 static_cast<const rte_flow_action_mark*>(action.conf)->id);
    case RTE_FLOW_ACTION_TYPE_JUMP:
      return jump(conf<rte_flow_action_jump>(action).group, beside.group_of_tunnel, rule);
    case RTE_FLOW_ACTION_TYPE_METER:
      return meter(port, conf<rte_flow_action_meter>(action).mtr_id, rule);
    case RTE_FLOW_ACTION_TYPE_AGE:
      return age(conf<rte_flow_action_age>(action), beside);
    case RTE_FLOW_ACTION_TYPE_INDIRECT:
      return name_shared(port, action.conf, rule, beside);
    default:
      return rule.domain == VNIC_DOMAIN_TRANSFER && translate_tunnel(action, rule);
  }
}

/// As the card demands it, so that nothing fails there: a drop or jump stands alone, an ingress
/// rule only marks.
bool is_sound(const vnic_rule& rule) {
  for (std::uint16_t i = 0; i < rule.action_count; ++i) {
    const vnic_action& action = rule.actions[i];
    const bool is_fate = action.kind == VNIC_ACTION_DROP || action.kind == VNIC_ACTION_JUMP;
    if (is_fate && rule.action_count != 1) return false;
    if (action.kind == VNIC_ACTION_JUMP && action.value >= VNIC_GROUPS_MAX) return false;
    if (rule.domain == VNIC_DOMAIN_INGRESS && action.kind != VNIC_ACTION_MARK &&
        action.kind != VNIC_ACTION_JUMP) {
      return false;
    }
  }
  return rule.action_count != 0;
}

/// Whether the rule gives the frame to no port: its tunnel stays as it is.
bool is_drop_or_mark(const rte_flow_action* actions) {
  for (; actions->type != RTE_FLOW_ACTION_TYPE_END; ++actions) {
    if (actions->type == RTE_FLOW_ACTION_TYPE_DROP || actions->type == RTE_FLOW_ACTION_TYPE_MARK) {
      return true;
    }
  }
  return false;
}

}  // namespace

const rte_flow_action* translate_actions(Port& port, const rte_flow_action* actions,
                                         vnic_rule& rule, Beside& beside) {
  const rte_flow_action* const first = actions;
  // In a tunnel's group: its user believes that the frame has left the tunnel.
  const bool leaves_tunnel = rule.group >= kGroups && !is_drop_or_mark(actions);
  if (leaves_tunnel) add(rule, VNIC_ACTION_DECAPSULATE, 0, 0);
  for (; actions->type != RTE_FLOW_ACTION_TYPE_END; ++actions) {
    if (!translate(port, *actions, rule, beside)) return actions;
  }
  return is_sound(rule) ? nullptr : first;
}

}  // namespace verbatim::offload::driver
