#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/error.h"
#include "offload/switch/flow_table.h"

namespace verbatim::offload {

/// A frame that has come. A large one (segmentation.h) stands for several packets.
struct Arrival {
  ByteSpan frame;
  std::uint16_t port = 0;
  std::uint32_t packets = 1;
  std::uint64_t bytes = 0;  // Of all packets.
  bool is_plain = true;     // It is one packet: a large one's are in no tunnel.
};

/// What becomes of a frame.
struct Verdict {
  std::uint32_t rule = kNoRule;     // kNoRule: a miss, the frame is software's.
  std::uint32_t mark = 0;           // Of a miss; 0: none.
  std::uint32_t hash = 0;           // Of its flow: misses are spread over queues.
  std::span<const Action> actions;  // Of the rule; valid until the rules change.
};

/// The embedded switch: rules, and what they make of frames. Without I/O and without clock.
class Switch {
 public:
  static constexpr std::size_t kBatch = FlowTable::kBatch;
  static constexpr std::uint16_t kGroupsMax = 512;
  static constexpr std::uint16_t kIngressGroup = 0x8000;  // Added to the groups of that domain.
  static constexpr int kJumpsMax = 8;  // A frame that jumps on is a miss: rules may form a circle.

  Switch(TableLimits limits, std::uint64_t seed) : table_(limits, seed), seed_(seed) {}

  /// ENOSPC, EEXIST as FlowTable; EINVAL: the actions make no sense together.
  Result<void> insert(Rule rule);
  bool erase(std::uint32_t id) { return table_.erase(id); }
  const FlowTable& table() const { return table_; }

  /// Decides for up to kBatch frames. Calls `count(id, arrival)` for each rule that a frame hits,
  /// and for its shared counter: counters are the caller's, by the rule's id.
  template <typename Count>
  void decide(std::span<const Arrival> arrivals, std::span<Verdict> verdicts, Count count) {
    Batch batch;
    begin(arrivals, batch);
    for (std::size_t i = 0; i < batch.count; ++i) {
      Verdict& verdict = verdicts[batch.origin[i]];
      verdict.hash = batch.hash(i, seed_);
      follow(batch.keys[i], batch.tunnels.empty() ? nullptr : batch.tunnels[i], batch.found[i],
             verdict, [&](std::uint32_t id) { count(id, arrivals[batch.origin[i]]); });
    }
  }

 private:
  struct Batch {
    std::array<Key, kBatch> keys;
    std::array<std::uint32_t, kBatch> found;
    std::array<std::uint8_t, kBatch> origin;  // Of the arrivals; malformed ones are left out.
    std::size_t count = 0;
    FlowTable::Tunnels tunnels;  // Empty: no rule asks for them.
    std::uint32_t hash(std::size_t i, std::uint64_t seed) const;
  };
  void begin(std::span<const Arrival> arrivals, Batch& batch);

  /// Jumps from rule to rule until one says what becomes of the frame.
  template <typename Count>
  void follow(Key key, const InTunnel* tunnel, std::uint32_t found, Verdict& verdict, Count count) {
    for (int jumps = 0; jumps <= kJumpsMax; ++jumps) {
      if (found == kNoRule) {
        if (key.group >= kIngressGroup) return;
        key.group = kIngressGroup;  // No rule decides: is it marked at least?
      } else {
        const StoredRule& rule = table_.rule(found);
        const std::vector<Action>& actions = rule.actions;
        count(found);
        if (rule.shared_counter != kNoRule) count(rule.shared_counter);
        for (const Action& action : actions) {
          if (action.kind == ActionKind::kMark) verdict.mark = action.value;
        }
        if (actions.back().kind != ActionKind::kJump) {
          if (actions.back().kind == ActionKind::kMark || key.group >= kIngressGroup) return;
          verdict.rule = found;
          verdict.actions = actions;
          return;
        }
        const auto group = static_cast<std::uint16_t>(actions.back().value);
        key.group = static_cast<std::uint16_t>((key.group & kIngressGroup) | group);
      }
      found = table_.find(key, tunnel);
    }
  }

  FlowTable table_;
  const std::uint64_t seed_;
  // Of a batch's frames.
  std::array<InTunnel, kBatch> tunnels_{};
  std::array<const InTunnel*, kBatch> in_tunnels_{};
};

}  // namespace verbatim::offload
