#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "offload/driver/book/rule_ids.h"
#include "offload/ring/layout.h"

namespace verbatim::offload::driver {

/// A meter that a program has made.
struct HeldMeter {
  vnic_meter wanted{};  // As the card has it when it is enabled; its id is the card's.
  std::uint32_t profile = 0;
  std::uint32_t policy = 0;
  bool is_enabled = true;
  std::uint32_t users = 0;       // Rules that name it.
  vnic_meter_counter base{};     // What was counted before the last reset.
  vnic_meter_counter carried{};  // What cards that have ended had counted since then.
};

/// Each number of a counter.
template <typename Do>
void for_each_number(vnic_meter_counter& counter, Do act) {
  auto* const numbers = reinterpret_cast<__u64*>(&counter);
  for (std::size_t i = 0; i < sizeof counter / sizeof *numbers; ++i) act(numbers[i], i);
}
inline __u64 number_of(const vnic_meter_counter& counter, std::size_t i) {
  return reinterpret_cast<const __u64*>(&counter)[i];
}

/// The meters of a card, by their ids there, whichever card it is. As RuleBook's, a Card has
/// `post(command)`, `is_done(number)` and `meter_counter(id)`. Not thread-safe.
class MeterBook {
 public:
  /// Returns null if there is no room.
  template <typename Card>
  HeldMeter* make(Card& card, const vnic_meter& wanted) {
    const auto id = ids_.take(card);
    if (!id) return nullptr;
    HeldMeter& meter = meters_[*id];
    meter = {.wanted = wanted};
    meter.wanted.id = *id;
    meter.base = card.meter_counter(*id);
    return &meter;
  }
  template <typename Card>
  void end(Card& card, const HeldMeter& meter) {
    const std::uint32_t id = meter.wanted.id;
    vnic_command command{};
    command.operation = VNIC_CLEAR_METER;
    command.meter.id = id;
    if (const auto number = card.post(command)) {
      ids_.retire(id, *number);
    } else {
      ids_.release(id);
    }
    meters_.erase(id);
  }
  /// Tells the card what the meter is. A card that has ended is told by `replay`.
  template <typename Card>
  static void tell(Card& card, const HeldMeter& meter) {
    vnic_command command{};
    command.operation = VNIC_SET_METER;
    command.meter = meter.wanted;
    if (!meter.is_enabled) command.meter.drops = 0;
    static_cast<void>(card.post(command));
  }
  template <typename Card>
  static vnic_meter_counter read(const Card& card, HeldMeter& meter, bool clear) {
    const vnic_meter_counter now = card.meter_counter(meter.wanted.id);
    vnic_meter_counter sum = now;
    for_each_number(sum, [&](__u64& number, std::size_t i) {
      number += number_of(meter.carried, i) - number_of(meter.base, i);
    });
    if (clear) {
      meter.base = now;
      meter.carried = {};
    }
    return sum;
  }
  /// Another card takes the place of one that has ended; `replay` follows, before that of rules.
  template <typename Card>
  void change(const Card& ended, const Card& card) {
    for (auto& [id, meter] : meters_) {
      meter.carried = read(ended, meter, false);
      meter.base = card.meter_counter(id);
    }
    ids_.release_all();
  }
  template <typename Card>
  void replay(Card& card) const {
    for (const auto& [id, meter] : meters_) tell(card, meter);
  }
  HeldMeter* find(std::uint32_t id) {
    const auto found = meters_.find(id);
    return found == meters_.end() ? nullptr : &found->second;
  }

 private:
  RuleIds ids_{VNIC_METERS_MAX};
  std::map<std::uint32_t, HeldMeter> meters_;
};

}  // namespace verbatim::offload::driver
