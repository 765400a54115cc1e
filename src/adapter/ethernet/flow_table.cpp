#include "adapter/ethernet/flow_table.h"

#include <algorithm>
#include <cstring>

namespace verbatim::adapter {

FlowTable::Key FlowTable::pack(std::uint16_t outer_layers, const wire::FrameFields& outer,
                               std::uint16_t inner_layers, const wire::FrameFields& inner) {
  constexpr std::size_t kWords = sizeof(wire::FrameFields) / 8;
  Key key{};
  key[0] = std::uint64_t{outer_layers} << 16 | inner_layers;
  std::memcpy(&key[1], &outer, sizeof outer);
  std::memcpy(&key[1 + kWords], &inner, sizeof inner);
  return key;
}

FlowTable::Key FlowTable::masked(const Group& group, const wire::Frame& frame) {
  Key key = pack(frame.outer.layers, frame.outer.fields, frame.inner.layers, frame.inner.fields);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] &= group.mask[i];
  return key;
}

std::size_t FlowTable::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) {  // Most words are zero and need no comparison.
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

std::uint32_t FlowTable::level_of(const FlowRule& rule) {
  const auto type = [&] {
    switch (rule.type) {
      case FlowType::normal:
        return Class::normal;
      case FlowType::all_default:
        return Class::all_default;
      case FlowType::multicast_default:
        return Class::multicast_default;
      case FlowType::sniffer:
        return Class::sniffer;
    }
    return Class::normal;
  }();
  return std::uint32_t{static_cast<std::uint8_t>(type)} << 16 | rule.priority;
}

FlowTable::RuleId FlowTable::add(FlowRule rule) {
  RuleLocation place{
      .level = level_of(rule),
      .mask = pack(rule.outer.layers, rule.outer.mask, rule.inner.layers, rule.inner.mask),
      .value = pack(rule.outer.layers, rule.outer.value, rule.inner.layers, rule.inner.value),
      .target = rule.target};
  for (std::size_t i = 0; i < place.value.size(); ++i) place.value[i] &= place.mask[i];
  const RuleId id = ++last_id_;
  auto& groups = levels_[place.level];
  auto group = std::ranges::find(groups, place.mask, &Group::mask);
  if (group == groups.end()) group = groups.insert(groups.end(), Group{place.mask, {}});
  group->rules[place.value].push_back({id, std::move(rule)});
  rules_.emplace(id, place);
  return id;
}

bool FlowTable::remove(RuleId id) {
  const auto known = rules_.find(id);
  if (known == rules_.end()) return false;
  const RuleLocation& place = known->second;
  const auto level = levels_.find(place.level);
  auto& groups = level->second;
  const auto group = std::ranges::find(groups, place.mask, &Group::mask);
  const auto entries = group->rules.find(place.value);
  std::erase_if(entries->second, [id](const Entry& entry) { return entry.id == id; });
  if (entries->second.empty()) group->rules.erase(entries);
  if (group->rules.empty()) groups.erase(group);
  if (groups.empty()) levels_.erase(level);
  rules_.erase(known);
  return true;
}

bool FlowTable::has_target(Qpn target) const {
  return std::ranges::any_of(rules_,
                             [target](const auto& rule) { return rule.second.target == target; });
}

void FlowTable::remove_all(Qpn target) {
  std::vector<RuleId> ids;
  for (const auto& [id, place] : rules_) {
    if (place.target == target) ids.push_back(id);
  }
  for (const RuleId id : ids) remove(id);
}

}  // namespace verbatim::adapter
