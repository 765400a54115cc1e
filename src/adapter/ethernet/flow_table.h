#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "wire/net/frame.h"

/// Flow steering: selects the queue pairs that get a frame. Pure; not thread-safe.
namespace verbatim::adapter {

/// A rule's conditions on a frame, outside or inside a tunnel: the required layers, and masked bits
/// of their fields that must equal `value`.
struct FlowMatch {
  std::uint16_t layers = 0;  // wire::FrameLayer bits.
  wire::FrameFields value;
  wire::FrameFields mask;
};

/// With the values of `enum ibv_flow_attr_type`.
enum class FlowType : std::uint8_t {
  normal = 0,
  all_default = 1,        // Frames that no normal rule took.
  multicast_default = 2,  // Of these, frames to groups.
  sniffer = 3,            // A copy of all frames, including sent ones.
};

/// Frames and bytes that rules took, for a counters object. Any thread.
struct FlowCounter {
  std::atomic<std::uint64_t> frames{0};
  std::atomic<std::uint64_t> bytes{0};
  void count(std::size_t frame_bytes) {
    frames.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(frame_bytes, std::memory_order_relaxed);
  }
};

struct FlowRule {
  FlowType type = FlowType::normal;
  std::uint16_t priority = 0;  // Lower numbers are checked first.
  bool trap = true;            // If false, rules of lower priority also see the frame.
  bool drop = false;           // No queue pair gets the frame.
  std::uint32_t tag = 0;       // For the completion (IBV_FLOW_SPEC_ACTION_TAG).
  FlowMatch outer;
  FlowMatch inner;
  Qpn target;
  std::shared_ptr<FlowCounter> counter;  // May be null, or shared with other rules.
};

/// Rules by class and priority; within a priority grouped by their masks, and in a group by values.
/// So a frame is compared once per set of masks, however many rules share it.
class FlowTable {
 public:
  using RuleId = std::uint64_t;

  /// Bits of layers that the rule does not have are ignored.
  RuleId add(FlowRule rule);
  /// Returns false if there is no such rule.
  bool remove(RuleId id);
  /// Removes all rules of a queue pair.
  void remove_all(Qpn target);
  bool has_target(Qpn target) const;
  bool empty() const { return rules_.empty(); }
  std::size_t size() const { return rules_.size(); }

  /// Calls `on_rule` for every rule that applies to a frame: the sniffers, and all matching rules
  /// of the highest priority that has any (and of lower priorities, unless one of them traps).
  /// `sent`: the node's own outgoing frame, which only sniffers see.
  template <typename OnRule>
  void steer(const wire::Frame& frame, bool sent, OnRule on_rule) const {
    for (const auto& [level, groups] : levels_) {
      const auto type = static_cast<Class>(level >> 16);
      if (type == Class::sniffer || !sent) {
        if (type == Class::multicast_default && !frame.is_group()) continue;
        bool trapped = false;
        for (const Group& group : groups) {
          const auto found = group.rules.find(masked(group, frame));
          if (found == group.rules.end()) continue;
          for (const Entry& entry : found->second) {
            on_rule(entry.rule);
            trapped |= entry.rule.trap && type != Class::sniffer;
          }
        }
        if (trapped) return;
      }
    }
  }

 private:
  /// In the order of checking.
  enum class Class : std::uint8_t { sniffer, normal, multicast_default, all_default };
  static constexpr std::size_t kKeyWords = 2 * sizeof(wire::FrameFields) / 8 + 1;
  using Key = std::array<std::uint64_t, kKeyWords>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Entry {
    RuleId id = 0;
    FlowRule rule;
  };
  /// Rules with the same masks on the same layers.
  struct Group {
    Key mask{};
    std::unordered_map<Key, std::vector<Entry>, KeyHash> rules;
  };
  static std::uint32_t level_of(const FlowRule& rule);
  static Key pack(std::uint16_t outer_layers, const wire::FrameFields& outer,
                  std::uint16_t inner_layers, const wire::FrameFields& inner);
  static Key masked(const Group& group, const wire::Frame& frame);
  struct RuleLocation {
    std::uint32_t level = 0;
    Key mask{};
    Key value{};
    Qpn target;
  };

  std::map<std::uint32_t, std::vector<Group>> levels_;  // By class and priority.
  std::unordered_map<RuleId, RuleLocation> rules_;
  RuleId last_id_ = 0;
};

}  // namespace verbatim::adapter
