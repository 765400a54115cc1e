#include "offload/switch/switch.h"

#include <algorithm>

#include <fmt/format.h>

#include "offload/switch/frames/tunnel.h"
#include "wire/net/frame.h"

namespace verbatim::offload {
namespace {

bool is_fate(ActionKind kind) { return kind == ActionKind::kDrop || kind == ActionKind::kJump; }

/// Actions after each kEncapsulate that carry its header, and none elsewhere.
bool has_whole_headers(const Actions& actions) {
  std::size_t wanted = 0;
  for (const Action& action : actions) {
    const bool is_header = action.kind == ActionKind::kHeader;
    if (is_header != (wanted != 0)) return false;
    if (is_header) --wanted;
    if (action.kind != ActionKind::kEncapsulate) continue;
    if (action.value < wire::kEthernetHeaderBytes || action.value > kTunnelHeaderMax) return false;
    wanted = (action.value + action.bytes.size() - 1) / action.bytes.size();
  }
  return wanted == 0;
}

/// A drop or a jump is the last action and no output stands beside it; an ingress rule's frames go
/// to software alone.
Result<void> check_actions(const Rule& rule) {
  const auto why = [&](const char* what) {
    return refuse(EINVAL, fmt::format("rule {}: {}", rule.id, what));
  };
  if (rule.actions.empty()) return why("no action");
  bool outputs = false;
  bool edits = false;
  for (const Action& action : rule.actions) {
    outputs |= action.kind == ActionKind::kOutput;
    edits |= is_edit(action.kind) || action.kind == ActionKind::kMeter;
    if (is_fate(action.kind) && &action != &rule.actions.back()) {
      return why("an action after a drop or a jump");
    }
    if (action.kind == ActionKind::kJump && action.value >= Switch::kGroupsMax) {
      return why("no such group");
    }
  }
  const ActionKind last = rule.actions.back().kind;
  if ((outputs || edits) && (is_fate(last) || last == ActionKind::kMark)) {
    return why("an action before a drop, a jump or a mark");
  }
  if (!has_whole_headers(rule.actions)) return why("a tunnel's header is not whole");
  if (rule.domain == Domain::kIngress && (outputs || edits || last == ActionKind::kDrop)) {
    return why("an ingress rule only marks");
  }
  return {};
}

}  // namespace

Result<void> Switch::insert(Rule rule) {
  if (auto fits = check_actions(rule); !fits) return fits;
  if (rule.group >= kGroupsMax) {
    return refuse(EINVAL, fmt::format("rule {}: group {} of {}", rule.id, rule.group, kGroupsMax));
  }
  if (rule.domain == Domain::kIngress) {
    rule.group = static_cast<std::uint16_t>(rule.group + kIngressGroup);
  }
  return table_.insert(rule);
}

void Switch::begin(std::span<const Arrival> arrivals, Batch& batch) {
  const bool has_tunnels = table_.has_tunnels();
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    Key& key = batch.keys[batch.count];
    if (!read_key(arrivals[i].frame, arrivals[i].port, key)) continue;
    if (has_tunnels) {
      const auto tunnel =
          arrivals[i].is_plain ? tunnel_of(arrivals[i].frame, key) : std::optional<InTunnel>();
      if (tunnel) tunnels_[batch.count] = *tunnel;
      in_tunnels_[batch.count] = tunnel ? &tunnels_[batch.count] : nullptr;
    }
    batch.origin[batch.count++] = static_cast<std::uint8_t>(i);
  }
  if (has_tunnels) batch.tunnels = std::span(in_tunnels_).first(batch.count);
  table_.find(std::span(batch.keys).first(batch.count), batch.tunnels,
              std::span(batch.found).first(batch.count));
}

/// Of addresses, protocol and ports: both words of ports, and the addresses.
std::uint32_t Switch::Batch::hash(std::size_t i, std::uint64_t seed) const {
  const Key& key = keys[i];
  const std::uint64_t state = mix(word(key, 0) ^ seed, word(key, 3) ^ word(key, 1)) +
                              mix(word(key, 4) ^ seed ^ kSecrets[0], word(key, 5) ^ kSecrets[1]) +
                              mix(word(key, 6) ^ seed ^ kSecrets[2], word(key, 7) ^ kSecrets[3]);
  return static_cast<std::uint32_t>(state ^ state >> 32);
}

}  // namespace verbatim::offload
