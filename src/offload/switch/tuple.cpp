#include "offload/switch/tuple.h"

namespace verbatim::offload {
namespace {
constexpr std::uint32_t kSlotsMin = 16;
}  // namespace

Tuple::Tuple(const Key& mask, const TunnelKey& tunnel_mask, std::uint64_t seed)
    : mask_(mask),
      tunnel_mask_(tunnel_mask),
      mask_words_(words(mask)),
      tunnel_mask_words_(words(tunnel_mask)),
      seed_(seed),
      slots_(kSlotsMin),
      slot_mask_(kSlotsMin - 1) {
  for (std::uint8_t i = 0; i < mask_words_.size(); ++i) {
    if (mask_words_[i] != 0) used_.push(i);
  }
  if (used_.size() % 2 != 0) used_.push(used_.back());
  for (std::uint8_t i = 0; i < tunnel_mask_words_.size(); ++i) {
    if (tunnel_mask_words_[i] != 0) tunnel_used_.push(i);
  }
}

std::uint32_t Tuple::hash_of(const StoredRule& rule) const {
  if (!has_tunnel()) return hash(rule.key, nullptr);
  const InTunnel tunnel{.key = rule.more->tunnel};
  return hash(rule.key, &tunnel);
}

bool Tuple::matches_more(const Key& key, const InTunnel* tunnel, const StoredRule& rule) const {
  if (rule.more == nullptr) return true;
  if (has_tunnel()) {
    if (tunnel == nullptr) return false;
    const TunnelKey& wanted = rule.more->tunnel;
    for (const std::uint8_t at : tunnel_used_) {
      const std::uint64_t differs = word(tunnel->key, at) ^ word(wanted, at);
      if ((differs & tunnel_mask_words_[at]) != 0) return false;
    }
  }
  return rule.more->accepts(key, tunnel);
}

void Tuple::add(std::uint32_t id, const StoredRule& rule) {
  if ((filled_ + 1) * 2 > slots_.size()) rebuild();
  put({hash_of(rule), id + 1});
  ++filled_;
  ++live_;
  asks_for_more_ |= rule.more != nullptr;
  ++priorities_[rule.priority];
  best_ = priorities_.begin()->first;
  has_one_priority_ = priorities_.size() == 1;
}

void Tuple::remove(std::uint32_t id, const StoredRule& rule) {
  std::uint32_t at = hash_of(rule) & slot_mask_;
  while (slots_[at].place != id + 1) at = (at + 1) & slot_mask_;
  slots_[at].place = kGone;
  --live_;
  const auto priority = priorities_.find(rule.priority);
  if (--priority->second == 0) priorities_.erase(priority);
  if (!priorities_.empty()) best_ = priorities_.begin()->first;
  has_one_priority_ = priorities_.size() <= 1;
}

void Tuple::put(Slot slot) {
  std::uint32_t at = slot.hash & slot_mask_;
  while (slots_[at].place != kNever) at = (at + 1) & slot_mask_;
  slots_[at] = slot;
}

/// Drops the slots of rules that are gone, and doubles the table if more than a quarter is live.
void Tuple::rebuild() {
  std::vector<Slot> old(live_ * 4 > slots_.size() ? slots_.size() * 2 : slots_.size());
  old.swap(slots_);
  slot_mask_ = static_cast<std::uint32_t>(slots_.size() - 1);
  filled_ = live_;
  for (const Slot& slot : old) {
    if (slot.place != kNever && slot.place != kGone) put(slot);
  }
}

}  // namespace verbatim::offload
