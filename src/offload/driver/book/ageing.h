#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"

namespace verbatim::offload::driver {

/// The age of a rule, or of rules that share it: if no packet meets them for its time, its user is
/// told. Without a rule it is as young as ever.
struct Age {
  void* context = nullptr;                                   // What the user is told.
  TimeNs timeout = 0;                                        // 0: it does not age for now.
  std::unordered_map<std::uint32_t, std::uint64_t> packets;  // Of each rule, at the last look.
  TimeNs last_hit = 0;                                       // When a look saw more packets.
  bool is_aged = false;
  std::size_t place = 0;  // In the list.

  /// `count`: of packets that have met the rule.
  void join(std::uint32_t rule, std::uint64_t count, TimeNs now) {
    if (packets.empty()) touch(now);
    packets.emplace(rule, count);
  }
  void leave(std::uint32_t rule, std::uint64_t count, TimeNs now) {
    const auto known = packets.find(rule);
    if (known->second != count) touch(now);
    packets.erase(known);
  }
  void touch(TimeNs now) {
    last_hit = now;
    is_aged = false;
  }
};

/// The ages of a port. The time of a hit is that of the look that saw it. Not thread-safe.
class Ageing {
 public:
  Age* add(void* context, TimeNs timeout) {
    ages_.push_back(std::make_unique<Age>());
    Age& age = *ages_.back();
    age.context = context;
    age.timeout = timeout;
    age.place = ages_.size() - 1;
    return &age;
  }
  void remove(Age* age) {
    const std::size_t place = age->place;
    std::swap(ages_[place], ages_.back());
    ages_[place]->place = place;
    ages_.pop_back();
  }
  bool empty() const { return ages_.empty(); }

  /// Looks at all counters: `packets(rule)`. Returns whether rules have aged of which the user does
  /// not know: it has not asked since the last time that this was so.
  template <typename Packets>
  bool look(TimeNs now, Packets packets) {
    bool are_new = false;
    for (const auto& age : ages_) are_new |= has_aged_now(*age, now, packets);
    const bool tells = are_new && !has_told_;
    has_told_ |= are_new;
    return tells;
  }

  /// Writes the contexts of what has aged, at most `room`, and returns how many; without room how
  /// many there are.
  std::size_t aged(void** contexts, std::size_t room) {
    has_told_ = false;
    std::size_t count = 0;
    for (const auto& age : ages_) {
      if (!age->is_aged) continue;
      if (room != 0 && count == room) break;
      if (room != 0) contexts[count] = age->context;
      ++count;
    }
    return count;
  }

 private:
  template <typename Packets>
  static bool has_aged_now(Age& age, TimeNs now, Packets packets) {
    bool is_hit = age.packets.empty();
    for (auto& [rule, known] : age.packets) {
      const std::uint64_t count = packets(rule);
      is_hit |= count != known;
      known = count;
    }
    if (is_hit) age.touch(now);
    if (age.is_aged || age.timeout == 0 || now - age.last_hit < age.timeout) return false;
    age.is_aged = true;
    return true;
  }

  std::vector<std::unique_ptr<Age>> ages_;
  bool has_told_ = false;  // The user knows that there are aged rules.
};

}  // namespace verbatim::offload::driver
