#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace verbatim::offload::driver {

/// The ids of rules that are free. One is used again only after its rule's erasure was executed:
/// until then the old rule counts into its counter.
class RuleIds {
 public:
  explicit RuleIds(std::uint32_t max) : max_(max) {}

  template <typename Card>
  std::optional<std::uint32_t> take(const Card& card) {
    while (!retired_.empty() && card.is_done(retired_.front().command)) {
      release(retired_.front().id);
      retired_.pop_front();
    }
    if (free_.empty()) return fresh_ < max_ ? std::optional(fresh_++) : std::nullopt;
    const std::uint32_t id = free_.back();
    free_.pop_back();
    return id;
  }
  /// `command`: the number of the one that erases the rule.
  void retire(std::uint32_t id, std::uint32_t command) { retired_.push_back({id, command}); }
  void release(std::uint32_t id) { free_.push_back(id); }
  /// There is another card, which has no rules.
  void release_all() {
    for (const Retired& each : retired_) release(each.id);
    retired_.clear();
  }

 private:
  struct Retired {
    std::uint32_t id;
    std::uint32_t command;
  };
  const std::uint32_t max_;
  std::uint32_t fresh_ = 0;  // This and all above were never used.
  std::vector<std::uint32_t> free_;
  std::deque<Retired> retired_;
};

}  // namespace verbatim::offload::driver
