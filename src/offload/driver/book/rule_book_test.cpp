#include "offload/driver/book/rule_book.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "offload/driver/retry.h"
#include "sim/random.h"

namespace verbatim::offload::driver {
namespace {

constexpr std::uint32_t kRules = 24;
constexpr std::uint16_t kPorts = 3;

/// A card that executes commands late, and may be killed at any moment.
class Card {
 public:
  Result<std::uint32_t> post(const vnic_command& command) {
    if (is_dead_) return refuse(ECONNRESET, "the card has ended");
    waiting_.push_back(command);
    return ++posted_;
  }
  bool is_done(std::uint32_t number) const { return executed_ >= number; }
  vnic_counter counter(std::uint32_t id) const { return counters_[id]; }

  void execute_one() {
    if (is_dead_ || waiting_.empty()) return;
    const vnic_command command = waiting_.front();
    waiting_.pop_front();
    ++executed_;
    if (command.operation == VNIC_INSERT) {
      ASSERT_TRUE(rules_.emplace(command.rule.id, command.rule.priority).second) << "an id in use";
      shared_[command.rule.id] = command.rule.shared_counter;
    } else {
      rules_.erase(command.rule.id);
    }
  }
  void execute_all() {
    while (!waiting_.empty()) execute_one();
  }
  void count(std::uint32_t id) {
    add_to(id);
    if (shared_[id] != 0) add_to(shared_[id] - 1);
  }
  void kill() {
    is_dead_ = true;
    waiting_.clear();
  }
  bool is_dead() const { return is_dead_; }
  /// By id: the rule's priority, by which the test knows it.
  const std::map<std::uint32_t, std::uint32_t>& rules() const { return rules_; }

 private:
  void add_to(std::uint32_t counter) {
    ++counters_[counter].packets;
    counters_[counter].bytes += 100;
  }

  std::deque<vnic_command> waiting_;
  std::uint32_t posted_ = 0;
  std::uint32_t executed_ = 0;
  std::map<std::uint32_t, std::uint32_t> rules_;
  std::map<std::uint32_t, std::uint32_t> shared_;  // By rule: a counter's id + 1.
  std::vector<vnic_counter> counters_ = std::vector<vnic_counter>(kRules);
  bool is_dead_ = false;
};

/// A program with rules, and cards that die under it.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.below(12)) {
      case 0:
      case 1:
        return insert();
      case 2:
        return erase();
      case 3:
      case 4:
        return card_->execute_one();
      case 5:
      case 6:
      case 7:
        return traffic();
      case 8:
        return query(random_.below(2) == 0);
      case 9:
        return make_counter();
      case 10:
        return end_counter();
      default:
        if (random_.below(8) == 0) card_->kill();
        if (card_->is_dead() && random_.below(2) == 0) replace();
    }
  }

  void replace() {
    auto next = std::make_unique<Card>();
    book_.change(*card_, *next);
    const auto replayed = book_.replay(*next);
    ASSERT_TRUE(replayed);
    EXPECT_EQ(*replayed, held_.size());
    card_ = std::move(next);
    card_->execute_all();
    std::map<std::uint32_t, std::uint32_t> wanted;
    for (const auto& [number, held] : held_) wanted.emplace(held->rule.id, number);
    EXPECT_EQ(card_->rules(), wanted);
  }

 private:
  /// What a counter must say.
  struct Expected {
    std::uint64_t packets = 0;  // That it has counted.
    std::uint64_t told = 0;     // By queries with reset.
    std::uint64_t last = 0;     // What a query has said.
  };
  struct Held {
    HeldRule rule;
    Expected expected;
    std::uint32_t shared = 0;  // Number of the counter that it adds to; 0: none.
  };
  struct Shared {
    HeldCounter* counter;
    Expected expected;
    std::uint32_t users = 0;
  };

  template <typename Map>
  Map::iterator some_of(Map& map) {
    return std::next(map.begin(), static_cast<std::ptrdiff_t>(random_.below(map.size())));
  }
  void insert() {
    vnic_command command{};
    command.operation = VNIC_INSERT;
    command.rule.port = static_cast<std::uint16_t>(random_.below(kPorts));
    command.rule.priority = ++numbers_;
    command.rule.action_count = static_cast<std::uint16_t>(random_.below(VNIC_ACTIONS_MAX + 1));
    auto held = std::make_unique<Held>();
    if (!shared_.empty() && random_.below(2) == 0) {
      const auto shared = some_of(shared_);
      held->shared = shared->first;
      command.rule.shared_counter = shared->second.counter->id + 1;
    }
    if (!book_.insert(*card_, command, held->rule)) return;
    if (held->shared != 0) ++shared_.at(held->shared).users;
    counts_in_[numbers_] = held->shared;
    held_.emplace(numbers_, std::move(held));
  }
  void erase() {
    if (held_.empty()) return;
    const auto victim = some_of(held_);
    book_.erase(*card_, victim->second->rule);
    if (victim->second->shared != 0) --shared_.at(victim->second->shared).users;
    held_.erase(victim);
  }
  void make_counter() {
    if (HeldCounter* const made = book_.make_counter(*card_)) {
      shared_.emplace(++numbers_, Shared{.counter = made, .expected = {}});
    }
  }
  void end_counter() {
    if (shared_.empty()) return;
    const auto victim = some_of(shared_);
    if (victim->second.users != 0) return;
    book_.end_counter(*victim->second.counter);
    shared_.erase(victim);
  }
  void traffic() {
    if (card_->is_dead()) return;
    for (const auto& [id, number] : card_->rules()) {
      if (random_.below(3) != 0) continue;
      card_->count(id);
      if (const auto met = held_.find(number); met != held_.end()) {
        ++met->second->expected.packets;
      }
      // Also of a rule that the program has erased: the card has not, so far.
      const auto shared = shared_.find(counts_in_.at(number));
      if (shared != shared_.end()) ++shared->second.expected.packets;
    }
  }
  void query(bool reset) {
    if (!held_.empty()) {
      Held& held = *some_of(held_)->second;
      query_one(held.rule, held.expected, reset);
    }
    if (shared_.empty()) return;
    Shared& shared = some_of(shared_)->second;
    query_one(*shared.counter, shared.expected, reset);
  }
  void query_one(HeldCounter& counter, Expected& expected, bool reset) {
    const vnic_counter counted = RuleBook::read(*card_, counter, reset);
    EXPECT_EQ(expected.told + counted.packets, expected.packets);
    EXPECT_EQ(counted.bytes, counted.packets * 100);
    EXPECT_GE(expected.told + counted.packets, expected.last) << "counters go back";
    expected.last = expected.told + counted.packets;
    if (reset) expected.told += counted.packets;
  }

  sim::Random random_;
  RuleBook book_{kRules, kPorts};
  std::unique_ptr<Card> card_ = std::make_unique<Card>();
  std::map<std::uint32_t, std::unique_ptr<Held>> held_;  // By the rules' priorities.
  std::map<std::uint32_t, Shared> shared_;
  std::map<std::uint32_t, std::uint32_t> counts_in_;  // The counter that each rule ever added to.
  std::uint32_t numbers_ = 0;
};

TEST(RuleBook, CardsDieAtAnyMoment) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Program program(seed);
    for (int i = 0; i < 500; ++i) program.step();
    program.replace();
    if (HasFailure()) return;
  }
}

TEST(RuleBook, AFullCardHasRoomAgainWhenAnErasureIsExecuted) {
  Card card;
  RuleBook book(1, 1);
  vnic_command command{};
  HeldRule one;
  HeldRule two;
  ASSERT_TRUE(book.insert(card, command, one));
  EXPECT_FALSE(book.insert(card, command, two));
  book.erase(card, one);
  EXPECT_FALSE(book.insert(card, command, two)) << "the old rule may still count";
  card.execute_all();
  EXPECT_TRUE(book.insert(card, command, two));
}

TEST(Retry, AtOnceThenLater) {
  Retry retry;
  EXPECT_EQ(retry.next(), 0u);
  EXPECT_EQ(retry.next(), Retry::kFirst);
  EXPECT_EQ(retry.next(), 2 * Retry::kFirst);
  for (int i = 0; i < 10; ++i) retry.next();
  EXPECT_EQ(retry.next(), Retry::kMost);
}

}  // namespace
}  // namespace verbatim::offload::driver
