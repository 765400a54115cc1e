#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "offload/driver/book/rule_ids.h"
#include "offload/ring/layout.h"

namespace verbatim::offload::driver {

struct Age;

/// A counter, whichever card it is in: a rule's own one, or one that rules share.
struct HeldCounter {
  std::uint32_t id = 0;
  vnic_counter base{};     // What its card had counted at the last query with reset.
  vnic_counter carried{};  // What cards that have ended had counted since then.
};

/// A rule that a program holds, with its own counter, in a list of those of its port.
struct HeldRule : HeldCounter {
  std::uint16_t port = 0;
  std::vector<std::byte> bytes;  // Of vnic_rule, as far as it is used.
  bool has_meters = false;
  Age* age = nullptr;  // Null: it does not age.
  HeldRule* next = nullptr;
  HeldRule* previous = nullptr;
};

/// The rules of a driver, whichever card it has: they outlive the card. A Card has `post(command)`
/// (a Result of the command's number), `is_done(number)` and `counter(id)`. Not thread-safe.
class RuleBook {
 public:
  RuleBook(std::uint32_t rules_max, std::size_t ports) : ids_(rules_max), first_(ports) {}

  /// Takes an id for the rule and posts it. A card that has ended gets it later, by `replay`.
  /// Returns false if there is no room.
  template <typename Card>
  bool insert(Card& card, vnic_command& command, HeldRule& rule) {
    const auto id = ids_.take(card);
    if (!id) return false;
    rule.id = command.rule.id = *id;
    rule.port = command.rule.port;
    // Before the rule is there: the counter goes on from where its last user left it.
    rule.base = card.counter(*id);
    const auto used =
        std::as_bytes(std::span(&command.rule, 1)).first(vnic_rule_bytes(&command.rule));
    rule.bytes.assign(used.begin(), used.end());
    static_cast<void>(card.post(command));
    link(rule);
    return true;
  }

  template <typename Card>
  void erase(Card& card, HeldRule& rule) {
    unlink(rule);
    vnic_command command{};
    command.operation = VNIC_ERASE;
    command.rule.id = rule.id;
    const auto number = card.post(command);
    if (number) {
      last_erasure_ = *number;
      ids_.retire(rule.id, *number);
    } else {
      ids_.release(rule.id);
    }
  }

  /// Makes a counter that rules may share: it takes an id, as a rule does. Returns null if there is
  /// no room.
  template <typename Card>
  HeldCounter* make_counter(Card& card) {
    const auto id = ids_.take(card);
    if (!id) return nullptr;
    HeldCounter& counter = shared_[*id];
    counter = {.id = *id, .base = card.counter(*id)};
    return &counter;
  }
  /// No rule names the counter. One that the card has not erased yet may count there until then.
  void end_counter(const HeldCounter& counter) {
    if (last_erasure_) {
      ids_.retire(counter.id, *last_erasure_);
    } else {
      ids_.release(counter.id);
    }
    shared_.erase(counter.id);
  }

  /// What was counted since the last query with `reset`, on all cards.
  template <typename Card>
  static vnic_counter read(const Card& card, HeldCounter& counter, bool reset) {
    const vnic_counter now = card.counter(counter.id);
    const vnic_counter sum = since(now, counter);
    if (reset) {
      counter.base = now;
      counter.carried = {};
    }
    return sum;
  }

  template <typename Card>
  static vnic_counter read(const Card& card, const HeldCounter& counter) {
    return since(card.counter(counter.id), counter);
  }

  /// Another card takes the place of one that has ended, whose counters can still be read.
  template <typename Card>
  void change(const Card& ended, const Card& card) {
    const auto carry = [&](HeldCounter& counter) {
      counter.carried = since(ended.counter(counter.id), counter);
      counter.base = card.counter(counter.id);
    };
    for_each(carry);
    for (auto& [id, counter] : shared_) carry(counter);
    last_erasure_.reset();
    ids_.release_all();
  }

  /// Posts all rules. Returns how many there are; an error if this card has ended, too.
  template <typename Card>
  Result<std::size_t> replay(Card& card) {
    Result<std::size_t> count(0);
    for_each([&](const HeldRule& rule) {
      if (!count) return;
      vnic_command command{};
      command.operation = VNIC_INSERT;
      std::memcpy(&command.rule, rule.bytes.data(), rule.bytes.size());
      if (const auto posted = card.post(command)) {
        ++*count;
      } else {
        count = std::unexpected(posted.error());
      }
    });
    return count;
  }

  /// The first rule of a port; null: it has none.
  HeldRule* first(std::uint16_t port) const { return first_[port]; }

  template <typename Do>
  void for_each(Do act) const {
    for (HeldRule* rule : first_) {
      for (; rule != nullptr; rule = rule->next) act(*rule);
    }
  }

 private:
  static vnic_counter since(const vnic_counter& now, const HeldCounter& counter) {
    return {counter.carried.packets + now.packets - counter.base.packets,
            counter.carried.bytes + now.bytes - counter.base.bytes};
  }
  void link(HeldRule& rule) {
    rule.next = first_[rule.port];
    if (rule.next != nullptr) rule.next->previous = &rule;
    first_[rule.port] = &rule;
  }
  void unlink(HeldRule& rule) {
    (rule.previous != nullptr ? rule.previous->next : first_[rule.port]) = rule.next;
    if (rule.next != nullptr) rule.next->previous = rule.previous;
    rule.next = rule.previous = nullptr;
  }

  RuleIds ids_;
  std::map<std::uint32_t, HeldCounter> shared_;  // By their ids.
  std::optional<std::uint32_t> last_erasure_;    // The number of its command; none on this card.
  std::vector<HeldRule*> first_;                 // Of each port's list.
};

}  // namespace verbatim::offload::driver
