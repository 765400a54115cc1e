#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"

namespace verbatim::offload::driver {

/// A rule that ages: if no packet meets it for its time, its user is told.
struct Age {
  std::uint32_t rule = 0;   // Its id.
  void* context = nullptr;  // What the user is told.
  TimeNs timeout = 0;
  std::uint64_t packets = 0;  // At the last look.
  TimeNs last_hit = 0;        // When a look saw more.
  bool is_aged = false;
  std::size_t place = 0;  // In the list.
};

/// The rules of a port that age. The time of a hit is that of the look that saw it. Not
/// thread-safe.
class Ageing {
 public:
  Age* add(std::uint32_t rule, void* context, TimeNs timeout, std::uint64_t packets, TimeNs now) {
    ages_.push_back(
        std::make_unique<Age>(Age{rule, context, timeout, packets, now, false, ages_.size()}));
    return ages_.back().get();
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
    for (const auto& age : ages_) {
      const std::uint64_t count = packets(age->rule);
      if (count != age->packets) {
        age->packets = count;
        age->last_hit = now;
        age->is_aged = false;
      } else if (!age->is_aged && now - age->last_hit >= age->timeout) {
        age->is_aged = are_new = true;
      }
    }
    const bool tells = are_new && !has_told_;
    has_told_ |= are_new;
    return tells;
  }

  /// Writes the contexts of aged rules, at most `room`, and returns how many; without room how many
  /// there are.
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
  std::vector<std::unique_ptr<Age>> ages_;
  bool has_told_ = false;  // The user knows that there are aged rules.
};

}  // namespace verbatim::offload::driver
