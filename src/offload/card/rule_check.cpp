#include "offload/card/rule_check.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>

#include <fmt/format.h>

#include "base/types.h"

namespace verbatim::offload {
namespace {

// A key of the switch is what a driver writes, with port and group in the reserved bytes.
static_assert(sizeof(vnic_match) == sizeof(Key));
static_assert(offsetof(vnic_match, vlan_tag) == offsetof(Key, vlan_tag));
static_assert(offsetof(vnic_match, protocol) == offsetof(Key, protocol));
static_assert(offsetof(vnic_match, tcp_flags) == offsetof(Key, tcp_flags));
static_assert(offsetof(vnic_match, destination_port) == offsetof(Key, destination_port));
static_assert(offsetof(vnic_match, reserved) == offsetof(Key, port));
static_assert(offsetof(vnic_match, source_ip) == offsetof(Key, source_ip));

Key key_of(const vnic_match& match) {
  Key key = std::bit_cast<Key>(match);
  key.port = key.group = 0;
  return key;
}

// The kinds are numbered alike.
static_assert(VNIC_ACTION_OUTPUT == raw(ActionKind::kOutput) + 1);
static_assert(VNIC_ACTION_JUMP == raw(ActionKind::kJump) + 1);
static_assert(VNIC_ACTION_SET_DESTINATION_IPV6 == raw(ActionKind::kSetDestinationIpv6) + 1);
static_assert(VNIC_ACTION_SET_VLAN_PRIORITY == raw(ActionKind::kSetVlanPriority) + 1);
static_assert(VNIC_ACTION_DECAPSULATE == raw(kLastAction) + 1);

Result<Action> action_of(const vnic_action& action, const vnic_rule& rule, std::uint16_t ports) {
  if (action.kind == 0 || action.kind > VNIC_ACTION_DECAPSULATE) {
    return refuse(EOPNOTSUPP, fmt::format("rule {}: action {} is not known", std::uint32_t{rule.id},
                                          std::uint16_t{action.kind}));
  }
  if (action.kind == VNIC_ACTION_OUTPUT && action.port >= ports) {
    return refuse(EINVAL, fmt::format("rule {}: port {} of {}", std::uint32_t{rule.id},
                                      std::uint16_t{action.port}, ports));
  }
  Action checked{
      .kind = static_cast<ActionKind>(action.kind - 1), .port = action.port, .value = action.value};
  std::ranges::copy(action.bytes, checked.bytes.begin());
  return checked;
}

}  // namespace

Result<Rule> rule_of(const vnic_rule& rule, std::uint16_t ports) {
  if (rule.port >= ports) {
    return refuse(EINVAL, fmt::format("rule {}: port {} of {}", std::uint32_t{rule.id},
                                      std::uint16_t{rule.port}, ports));
  }
  if (rule.domain > VNIC_DOMAIN_INGRESS || rule.action_count > kActionsMax) {
    return refuse(EINVAL, fmt::format("rule {}: domain {}, {} actions (at most {})",
                                      std::uint32_t{rule.id}, std::uint16_t{rule.domain},
                                      std::uint16_t{rule.action_count}, kActionsMax));
  }
  Rule checked{.key = key_of(rule.key), .mask = key_of(rule.mask), .id = rule.id};
  checked.priority = rule.priority;
  checked.group = rule.group;
  checked.domain = rule.domain == VNIC_DOMAIN_INGRESS ? Domain::kIngress : Domain::kTransfer;
  checked.key.port = rule.port;
  for (std::size_t i = 0; i < rule.action_count; ++i) {
    auto action = action_of(rule.actions[i], rule, ports);
    if (!action) return std::unexpected(action.error());
    checked.actions.push(*action);
  }
  return checked;
}

}  // namespace verbatim::offload
