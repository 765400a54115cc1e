#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "offload/switch/key_cache.h"
#include "offload/switch/tuple.h"

namespace verbatim::offload {

struct TableLimits {
  std::uint32_t rules = 1 << 20;  // Their ids are below this.
  std::size_t masks = 1024;       // A search may have to look for each of them.
};

/// Rules by masked match: a hash table for each mask ("tuple-space search"), in the order of their
/// best priorities, and a cache of keys in front. One thread searches and changes it.
class FlowTable {
 public:
  static constexpr std::size_t kBatch = 32;

  FlowTable(TableLimits limits, std::uint64_t seed);

  /// ENOSPC: too many rules or masks; EEXIST: there is a rule of this id; EINVAL: no id is as large
  /// as that of its shared counter.
  Result<void> insert(const Rule& rule);
  /// Returns false if there is no rule of this id.
  bool erase(std::uint32_t id);

  /// Finds the rule for each key, kNoRule if there is none. At most kBatch at once: what the search
  /// will read is prefetched for all of them, so that waits for memory overlap.
  /// `tunnels`: for each key what is in the tunnel, null if there is none; empty: for all of them.
  using Tunnels = std::span<const InTunnel* const>;
  void find(std::span<const Key> keys, Tunnels tunnels, std::span<std::uint32_t> found);
  std::uint32_t find(const Key& key, const InTunnel* tunnel = nullptr);
  /// Whether any rule asks for what is in tunnels.
  bool has_tunnels() const { return tunnel_rules_ != 0; }

  const StoredRule& rule(std::uint32_t id) const { return rules_[id]; }
  bool has(std::uint32_t id) const { return id < rules_.size() && rules_[id].tuple != nullptr; }
  /// Ids below this may have a rule.
  std::uint32_t ids() const { return static_cast<std::uint32_t>(rules_.size()); }
  std::uint32_t size() const { return size_; }
  std::size_t masks() const { return tuples_.size(); }
  void use_cache(bool use) { uses_cache_ = use; }

 private:
  struct Search;
  Tuple* tuple_of(const Rule& rule);
  void sort_tuples();
  std::uint64_t hash(const Key& key) const;
  bool is_right(std::uint32_t entry, const Key& key) const;
  void look_in_cache(Search& search);
  void put_into_cache(const Search& search, std::size_t i);
  void look_in(Tuple& tuple, Search& search);
  void search(Search& search);

  const TableLimits limits_;
  const std::uint64_t seed_;
  std::vector<std::unique_ptr<Tuple>> tuples_;
  std::vector<StoredRule> rules_;
  std::uint32_t size_ = 0;
  std::uint32_t tunnel_rules_ = 0;
  std::map<std::uint32_t, std::uint32_t> priorities_;  // How many rules have each.
  KeyCache cache_;
  bool cache_is_stale_ = false;
  bool uses_cache_ = true;
};

}  // namespace verbatim::offload
