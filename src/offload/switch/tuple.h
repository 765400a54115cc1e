#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/inplace_vector.h"
#include "offload/switch/rule.h"

namespace verbatim::offload {

class Tuple;

/// A rule as the table keeps it, by its id. Its key is one cache line.
struct alignas(64) StoredRule {
  Key key;                 // Masked.
  Tuple* tuple = nullptr;  // Null: there is no rule of this id.
  std::uint32_t priority = 0;
  std::uint32_t version = 1;    // Grows when a rule of this id is erased.
  std::vector<Action> actions;  // Most rules have one or two.
  std::shared_ptr<const MoreMatch> more;
  std::uint32_t shared_counter = kNoRule;
};
static_assert(sizeof(StoredRule) == 128);

__extension__ using Wide = unsigned __int128;

/// Multiplies to 128 bits and folds: the mixing step of all hashes here.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Of hashes: one for each word of a key, so that equal words in different places differ.
inline constexpr std::array<std::uint64_t, 8> kSecrets{
    0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0x27d4eb2f165667c5,
    0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3};

/// All rules with one mask: an open-addressed hash table of their ids.
class Tuple {
 public:
  Tuple(const Key& mask, const TunnelKey& tunnel_mask, std::uint64_t seed);

  const Key& mask() const { return mask_; }
  /// Without a kind: its rules ask for no tunnel.
  const TunnelKey& tunnel_mask() const { return tunnel_mask_; }
  bool has_tunnel() const { return tunnel_mask_.kind != wire::TunnelKind::kNone; }
  std::uint32_t rules() const { return live_; }
  std::uint32_t best_priority() const { return best_; }

  void add(std::uint32_t id, const StoredRule& rule);
  void remove(std::uint32_t id, const StoredRule& rule);

  /// Of a key, masked or not. The products of pairs of words do not wait for each other.
  /// `tunnel`: there is one if the tuple has one.
  std::uint32_t hash(const Key& key, const InTunnel* tunnel) const {
    std::uint64_t state = seed_;
    for (std::size_t i = 0; i < used_.size(); i += 2) {
      const std::uint8_t one = used_[i];
      const std::uint8_t two = used_[i + 1];
      state += mix((word(key, one) & mask_words_[one]) ^ kSecrets[i] ^ seed_,
                   (word(key, two) & mask_words_[two]) ^ kSecrets[i + 1]);
    }
    for (const std::uint8_t at : tunnel_used_) {
      state = mix(state ^ (word(tunnel->key, at) & tunnel_mask_words_[at]), kSecrets[at & 7] + at);
    }
    return static_cast<std::uint32_t>(state ^ state >> 32);
  }
  void prefetch(std::uint32_t hash) const { __builtin_prefetch(&slots_[hash & slot_mask_]); }
  /// Asks for the rule that `find` will most likely read.
  void prefetch_rule(std::uint32_t hash, const std::vector<StoredRule>& rules) const {
    const Slot slot = slots_[hash & slot_mask_];
    if (slot.hash == hash && slot.place != kNever && slot.place != kGone) {
      __builtin_prefetch(&rules[slot.place - 1]);
    }
  }
  /// Returns the best rule that matches, or kNoRule.
  std::uint32_t find(std::uint32_t hash, const Key& key, const InTunnel* tunnel,
                     const std::vector<StoredRule>& rules) const;

  /// Whether a rule of this tuple matches a frame that is in no tunnel.
  bool accepts(const Key& key, const StoredRule& rule) const;

 private:
  static constexpr std::uint32_t kNever = 0;          // No rule was ever here: a search ends.
  static constexpr std::uint32_t kGone = 0xffffffff;  // A rule was here: a search goes on.
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t place = kNever;  // The rule's id + 1.
  };
  std::uint32_t hash_of(const StoredRule& rule) const;
  void put(Slot slot);
  void rebuild();
  bool matches(const Key& key, const Key& rule) const;
  bool matches_more(const Key& key, const InTunnel* tunnel, const StoredRule& rule) const;

  const Key mask_;
  const TunnelKey tunnel_mask_;
  const KeyWords mask_words_;
  const TunnelWords tunnel_mask_words_;
  const std::uint64_t seed_;
  InplaceVector<std::uint8_t, 8> used_;  // Words in which the mask has a bit, an even number.
  InplaceVector<std::uint8_t, 9> tunnel_used_;
  bool asks_for_more_ = false;  // A rule has what lies elsewhere.
  std::vector<Slot> slots_;
  std::uint32_t slot_mask_;
  std::uint32_t filled_ = 0;  // Slots that are not kNever.
  std::uint32_t live_ = 0;
  std::uint32_t best_ = 0;
  bool has_one_priority_ = true;
  std::map<std::uint32_t, std::uint32_t> priorities_;  // How many rules have each.
};

inline bool Tuple::matches(const Key& key, const Key& rule) const {
  std::uint64_t differs = 0;
  for (std::size_t i = 0; i < mask_words_.size(); ++i) {
    differs |= (word(key, i) ^ word(rule, i)) & mask_words_[i];
  }
  return differs == 0;
}

inline bool Tuple::accepts(const Key& key, const StoredRule& rule) const {
  return matches(key, rule.key) && (!asks_for_more_ || matches_more(key, nullptr, rule));
}

inline std::uint32_t Tuple::find(std::uint32_t hash, const Key& key, const InTunnel* tunnel,
                                 const std::vector<StoredRule>& rules) const {
  std::uint32_t best = kNoRule;
  for (std::uint32_t at = hash & slot_mask_; slots_[at].place != kNever;
       at = (at + 1) & slot_mask_) {
    const Slot slot = slots_[at];
    if (slot.hash != hash || slot.place == kGone) continue;
    const std::uint32_t id = slot.place - 1;
    if (!matches(key, rules[id].key)) continue;
    if (asks_for_more_ && !matches_more(key, tunnel, rules[id])) continue;
    if (has_one_priority_) return id;
    if (best == kNoRule || rules[id].priority < rules[best].priority) best = id;
  }
  return best;
}

}  // namespace verbatim::offload
