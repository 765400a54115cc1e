#include "offload/card/rule_check.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>

#include <fmt/format.h>

#include "base/types.h"
#include "offload/switch/switch.h"

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
static_assert(VNIC_ACTION_DECAPSULATE == raw(ActionKind::kDecapsulate) + 1);
static_assert(VNIC_ACTION_METER == raw(kLastAction) + 1);
static_assert(VNIC_GROUPS_MAX == Switch::kGroupsMax);
// The same of tunnels.
static_assert(sizeof(vnic_tunnel) == sizeof(TunnelKey));
static_assert(offsetof(vnic_tunnel, id) == offsetof(TunnelKey, id));
static_assert(offsetof(vnic_tunnel, inner) == offsetof(TunnelKey, inner));
static_assert(VNIC_OPTION_BYTES == TunnelOption::kBytesMax && VNIC_OPTIONS_MAX == kOptionsMax);
static_assert(VNIC_TUNNEL_GENEVE == raw(wire::TunnelKind::kGeneve));
static_assert(VNIC_TUNNEL_VXLAN == raw(wire::TunnelKind::kVxlan));
static_assert(VNIC_TUNNEL_GRE == raw(wire::TunnelKind::kGre));

std::unexpected<Error> refuse_rule(const vnic_rule& rule, const char* why) {
  return refuse(EINVAL, fmt::format("rule {}: {}", std::uint32_t{rule.id}, why));
}

/// Adds what few rules have.
Result<void> add_more(const vnic_rule& rule, Rule& to) {
  const vnic_more& more = rule.more;
  if (more.range_count > kRangesMax) return refuse_rule(rule, "too many ranges");
  if (more.option_count > kOptionsMax) return refuse_rule(rule, "too many options");
  MoreMatch checked{.tunnel = std::bit_cast<TunnelKey>(more.tunnel),
                    .tunnel_mask = std::bit_cast<TunnelKey>(more.tunnel_mask)};
  if (more.tunnel_mask.kind != 0 && more.tunnel_mask.kind != 0xff) {
    return refuse_rule(rule, "a part of a tunnel's kind");
  }
  if (!checked.has_tunnel()) checked.tunnel = checked.tunnel_mask = {};
  for (const vnic_range& range : std::span(more.ranges).first(more.range_count)) {
    const bool is_in_key =
        range.size != 0 && range.size <= 16 && range.at + range.size <= sizeof(Key);
    if (!is_in_key) return refuse_rule(rule, "a range outside the key");
    if (range.is_inner != 0 && !checked.has_tunnel()) return refuse_rule(rule, "no tunnel");
    Range one{.is_inner = range.is_inner != 0, .at = range.at, .size = range.size};
    std::ranges::copy(range.mask, one.mask.begin());
    std::ranges::copy(range.low, one.low.begin());
    std::ranges::copy(range.high, one.high.begin());
    checked.ranges.push(one);
  }
  for (const vnic_option& option : std::span(more.options).first(more.option_count)) {
    const bool has_size =
        option.size >= TunnelOption::kHeaderBytes && option.size <= TunnelOption::kBytesMax;
    if (!has_size || checked.tunnel.kind != wire::TunnelKind::kGeneve) {
      return refuse_rule(rule, "an option, but not Geneve's");
    }
    TunnelOption one{.size = option.size};
    std::ranges::copy(option.mask, one.mask.begin());
    std::ranges::copy(option.value, one.value.begin());
    checked.options.push(one);
  }
  to.more = std::make_shared<const MoreMatch>(checked);
  return {};
}

Result<Action> action_of(const vnic_action& action, const vnic_rule& rule, std::uint16_t ports) {
  if (action.kind == 0 || action.kind > VNIC_ACTION_METER) {
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
  static_assert(kNoRule == 0u - 1);
  checked.shared_counter = rule.shared_counter - 1;  // 0: none.
  checked.domain = rule.domain == VNIC_DOMAIN_INGRESS ? Domain::kIngress : Domain::kTransfer;
  checked.key.port = rule.port;
  for (std::size_t i = 0; i < rule.action_count; ++i) {
    auto action = action_of(rule.actions[i], rule, ports);
    if (!action) return std::unexpected(action.error());
    checked.actions.push(*action);
  }
  if (rule.has_more != 0) {
    if (auto added = add_more(rule, checked); !added) return std::unexpected(added.error());
  }
  return checked;
}

vnic_rule ring_rule_of(const StoredRule& stored) {
  vnic_rule rule{};
  rule.port = stored.key.port;
  rule.group = static_cast<std::uint16_t>(stored.key.group % Switch::kIngressGroup);
  const bool is_ingress = stored.key.group >= Switch::kIngressGroup;
  rule.domain = is_ingress ? VNIC_DOMAIN_INGRESS : VNIC_DOMAIN_TRANSFER;
  rule.priority = stored.priority;
  rule.shared_counter = stored.shared_counter + 1;
  rule.key = std::bit_cast<vnic_match>(stored.key);
  rule.mask = std::bit_cast<vnic_match>(stored.tuple->mask());
  for (const Action& action : stored.actions) {
    vnic_action& to = rule.actions[rule.action_count++];
    to = {static_cast<__u16>(raw(action.kind) + 1), action.port, action.value, {}};
    std::ranges::copy(action.bytes, to.bytes);
  }
  if (stored.more == nullptr) return rule;
  rule.has_more = 1;
  rule.more.tunnel = std::bit_cast<vnic_tunnel>(stored.more->tunnel);
  rule.more.tunnel_mask = std::bit_cast<vnic_tunnel>(stored.more->tunnel_mask);
  for (const Range& range : stored.more->ranges) {
    vnic_range& to = rule.more.ranges[rule.more.range_count++];
    to = {.is_inner = range.is_inner, .at = range.at, .size = range.size};
    std::ranges::copy(range.mask, to.mask);
    std::ranges::copy(range.low, to.low);
    std::ranges::copy(range.high, to.high);
  }
  for (const TunnelOption& option : stored.more->options) {
    vnic_option& to = rule.more.options[rule.more.option_count++];
    to.size = option.size;
    std::ranges::copy(option.mask, to.mask);
    std::ranges::copy(option.value, to.value);
  }
  return rule;
}

std::optional<MeterProfile> profile_of(const vnic_meter& meter) {
  if (meter.id >= VNIC_METERS_MAX || meter.algorithm > VNIC_METER_TWO_RATE) return {};
  MeterProfile profile{.algorithm = static_cast<MeterProfile::Algorithm>(meter.algorithm),
                       .counts_packets = meter.counts_packets != 0,
                       .committed_rate = meter.committed_rate,
                       .peak_rate = meter.peak_rate,
                       .committed_burst = meter.committed_burst,
                       .other_burst = meter.other_burst};
  for (std::size_t color = 0; color < profile.drops.size(); ++color) {
    profile.drops[color] = (meter.drops >> color & 1) != 0;
  }
  return profile;
}

}  // namespace verbatim::offload
