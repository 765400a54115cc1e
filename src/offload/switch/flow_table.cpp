#include "offload/switch/flow_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace verbatim::offload {
namespace {

/// Doubles in steps, so that the table of ids does not move with every rule.
std::size_t room_for(std::uint32_t id, std::uint32_t max) {
  return std::min<std::size_t>(max, id + id / 2 + 64);
}

}  // namespace

/// One batch: what is found so far, and which keys may still find a better rule.
struct FlowTable::Search {
  std::span<const Key> keys;
  Tunnels tunnels;
  const InTunnel* tunnel(std::size_t i) const { return tunnels.empty() ? nullptr : tunnels[i]; }
  std::array<std::uint32_t, kBatch> hashes;
  std::array<std::uint64_t, kBatch> cache_hashes;
  std::array<std::uint8_t, kBatch> open;  // Indices.
  std::size_t open_count = 0;
  std::span<std::uint32_t> found;
};

FlowTable::FlowTable(TableLimits limits, std::uint64_t seed) : limits_(limits), seed_(seed) {
  rules_.reserve(limits.rules);  // No rule is ever moved; memory that is not used is not there.
}

Tuple* FlowTable::tuple_of(const Rule& rule) {
  Key mask = rule.mask;
  mask.port = mask.group = 0xffff;
  const TunnelKey tunnel_mask = rule.more != nullptr ? rule.more->tunnel_mask : TunnelKey{};
  const auto same = [&](const auto& tuple) {
    return tuple->mask() == mask && tuple->tunnel_mask() == tunnel_mask;
  };
  const auto found = std::ranges::find_if(tuples_, same);
  if (found != tuples_.end()) return found->get();
  if (tuples_.size() == limits_.masks) return nullptr;
  return tuples_.emplace_back(std::make_unique<Tuple>(mask, tunnel_mask, seed_)).get();
}

void FlowTable::sort_tuples() {
  const auto priority = [](const auto& tuple) { return tuple->best_priority(); };
  if (!std::ranges::is_sorted(tuples_, {}, priority)) std::ranges::sort(tuples_, {}, priority);
}

Result<void> FlowTable::insert(const Rule& rule) {
  if (rule.id >= limits_.rules) {
    return refuse(ENOSPC, fmt::format("rule {}: at most {} rules", rule.id, limits_.rules));
  }
  if (rule.shared_counter != kNoRule && rule.shared_counter >= limits_.rules) {
    return refuse(EINVAL, fmt::format("rule {}: counter {} of {}", rule.id, rule.shared_counter,
                                      limits_.rules));
  }
  if (has(rule.id)) return refuse(EEXIST, fmt::format("rule {} exists", rule.id));
  Tuple* const tuple = tuple_of(rule);
  if (tuple == nullptr) {
    return refuse(ENOSPC, fmt::format("rule {}: at most {} masks", rule.id, limits_.masks));
  }
  if (rule.id >= rules_.size()) rules_.resize(room_for(rule.id, limits_.rules));
  StoredRule& stored = rules_[rule.id];
  stored.key = masked(rule.key, tuple->mask());
  stored.key.group = rule.group;
  stored.tuple = tuple;
  stored.priority = rule.priority;
  stored.actions.assign(rule.actions.begin(), rule.actions.end());
  stored.more = rule.more;
  stored.shared_counter = rule.shared_counter;
  tuple->add(rule.id, stored);
  if (tuple->has_tunnel()) ++tunnel_rules_;
  sort_tuples();
  // What the cache has found stays right unless the new rule may win over it; keys are not kept
  // while all rules are of one priority.
  const bool may_win = size_ > 0 && rule.priority < priorities_.rbegin()->first;
  const std::size_t were = priorities_.size();
  ++priorities_[rule.priority];
  cache_is_stale_ |= may_win || (were == 1 && priorities_.size() == 2);
  ++size_;
  return {};
}

bool FlowTable::erase(std::uint32_t id) {
  if (!has(id)) return false;
  StoredRule& stored = rules_[id];
  Tuple* const tuple = stored.tuple;
  tuple->remove(id, stored);
  if (tuple->has_tunnel()) --tunnel_rules_;
  stored.tuple = nullptr;
  stored.more.reset();
  ++stored.version;
  const auto priority = priorities_.find(stored.priority);
  if (--priority->second == 0) priorities_.erase(priority);
  --size_;
  if (tuple->rules() == 0) {
    std::erase_if(tuples_, [&](const auto& each) { return each.get() == tuple; });
  } else {
    sort_tuples();
  }
  return true;
}

std::uint64_t FlowTable::hash(const Key& key) const {
  std::uint64_t state = seed_;
  for (std::size_t i = 0; i < kSecrets.size(); i += 2) {
    state += mix(word(key, i) ^ kSecrets[i] ^ seed_, word(key, i + 1) ^ kSecrets[i + 1]);
  }
  return state ^ state >> 29;
}

/// Of rules of one priority each that matches is right.
bool FlowTable::is_right(std::uint32_t entry, const Key& key) const {
  const StoredRule& rule = rules_[cache_.rule(entry)];
  if (rule.tuple == nullptr) return false;
  if (priorities_.size() == 1) return rule.tuple->accepts(key, rule);
  return cache_.has_key(entry, key, rule.version);
}

/// Looks for all open keys in one tuple, and closes those that found a rule of the best priority
/// that any later tuple may have.
void FlowTable::look_in(Tuple& tuple, Search& search) {
  std::span<const std::uint8_t> open(search.open.data(), search.open_count);
  InplaceVector<std::uint8_t, kBatch> in_tunnels;
  if (tuple.has_tunnel()) {
    for (const std::uint8_t i : open) {
      if (search.tunnel(i) != nullptr) in_tunnels.push(i);
    }
    open = {in_tunnels.begin(), in_tunnels.size()};
  }
  for (const std::uint8_t i : open) {
    search.hashes[i] = tuple.hash(search.keys[i], search.tunnel(i));
    tuple.prefetch(search.hashes[i]);
  }
  for (const std::uint8_t i : open) tuple.prefetch_rule(search.hashes[i], rules_);
  for (const std::uint8_t i : open) {
    const std::uint32_t id = tuple.find(search.hashes[i], search.keys[i], search.tunnel(i), rules_);
    std::uint32_t& best = search.found[i];
    if (id == kNoRule) continue;
    if (best == kNoRule || rules_[id].priority < rules_[best].priority) best = id;
  }
}

void FlowTable::search(Search& search) {
  for (std::size_t t = 0; t < tuples_.size() && search.open_count > 0; ++t) {
    Tuple& tuple = *tuples_[t];
    // Tuples are in the order of their best priorities: what is as good as the next is final.
    std::size_t left = 0;
    for (std::size_t n = 0; n < search.open_count; ++n) {
      const std::uint8_t i = search.open[n];
      const std::uint32_t best = search.found[i];
      const bool is_final = best != kNoRule && rules_[best].priority <= tuple.best_priority();
      if (!is_final) search.open[left++] = i;
    }
    search.open_count = left;
    look_in(tuple, search);
  }
}

/// Leaves open what the cache does not know. It has no frames of tunnels as long as rules ask for
/// what is in them: its keys are those of the tunnel's own headers.
void FlowTable::look_in_cache(Search& search) {
  if (std::exchange(cache_is_stale_, false)) cache_.clear();
  const std::size_t count = search.keys.size();
  std::array<std::uint32_t, kBatch> entries;
  for (std::size_t i = 0; i < count; ++i) {
    search.cache_hashes[i] = hash(search.keys[i]);
    cache_.prefetch(search.cache_hashes[i]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_plain = search.tunnel(i) == nullptr;
    entries[i] = is_plain ? cache_.find(search.cache_hashes[i]) : KeyCache::kNone;
    if (entries[i] == KeyCache::kNone) continue;
    const auto* const rule = reinterpret_cast<const std::byte*>(&rules_[cache_.rule(entries[i])]);
    __builtin_prefetch(rule);
    __builtin_prefetch(rule + 64);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_known = entries[i] != KeyCache::kNone && is_right(entries[i], search.keys[i]);
    search.found[i] = is_known ? cache_.rule(entries[i]) : kNoRule;
    if (!is_known) search.open[search.open_count++] = static_cast<std::uint8_t>(i);
  }
}

void FlowTable::put_into_cache(const Search& search, std::size_t i) {
  const std::uint32_t id = search.found[i];
  if (id == kNoRule || search.tunnel(i) != nullptr) return;
  const std::uint32_t entry = cache_.put(search.cache_hashes[i], id);
  if (priorities_.size() > 1) cache_.keep_key(entry, search.keys[i], rules_[id].version);
}

void FlowTable::find(std::span<const Key> keys, Tunnels tunnels, std::span<std::uint32_t> found) {
  Search batch;
  batch.keys = keys;
  batch.tunnels = tunnels;
  batch.found = found;
  if (uses_cache_) {
    look_in_cache(batch);
  } else {
    for (; batch.open_count < keys.size(); ++batch.open_count) {
      found[batch.open_count] = kNoRule;
      batch.open[batch.open_count] = static_cast<std::uint8_t>(batch.open_count);
    }
  }
  if (batch.open_count == 0) return;
  const std::array<std::uint8_t, kBatch> searched = batch.open;
  const std::size_t count = batch.open_count;
  search(batch);
  if (!uses_cache_) return;
  for (const std::uint8_t i : std::span(searched).first(count)) put_into_cache(batch, i);
}

std::uint32_t FlowTable::find(const Key& key, const InTunnel* tunnel) {
  std::uint32_t found = kNoRule;
  find(std::span(&key, 1), std::span(&tunnel, 1), std::span(&found, 1));
  return found;
}

}  // namespace verbatim::offload
