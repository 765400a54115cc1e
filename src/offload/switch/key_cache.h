#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "offload/switch/rule.h"

namespace verbatim::offload {

/// Rules that keys have found, by the keys' hashes. Entries are small, so that thousands of flows
/// fit into the processor's cache: who asks compares the key with the rule, as another key may have
/// the same hash. Where several rules may match a key, and the best one counts, that is not enough:
/// then the whole key is kept, too.
class KeyCache {
 public:
  KeyCache() : buckets_(kBuckets) {}

  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&buckets_[hash % kBuckets]); }

  /// Where an entry of this hash is, kNone if there is none.
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t find(std::uint64_t hash) const {
    const Bucket& bucket = buckets_[hash % kBuckets];
    for (std::uint32_t way = 0; way < kWays; ++way) {
      if (bucket[way].tag == tag_of(hash) && bucket[way].id != kNoRule) {
        return static_cast<std::uint32_t>(hash % kBuckets) * kWays + way;
      }
    }
    return kNone;
  }
  std::uint32_t rule(std::uint32_t at) const { return buckets_[at / kWays][at % kWays].id; }

  /// Takes the place of an entry of the same hash, else of an empty one, else of any.
  std::uint32_t put(std::uint64_t hash, std::uint32_t id);
  void clear();

  /// `version`: of the rule, which may end and have another one of its id after it.
  void keep_key(std::uint32_t at, const Key& key, std::uint32_t version);
  bool has_key(std::uint32_t at, const Key& key, std::uint32_t version) const {
    return at < keys_.size() && keys_[at].version == version && keys_[at].key == key;
  }

 private:
  static constexpr std::size_t kBuckets = 8192;
  static constexpr std::uint32_t kWays = 4;
  struct Entry {
    std::uint32_t tag = 0;
    std::uint32_t id = kNoRule;
  };
  struct alignas(32) Bucket : std::array<Entry, kWays> {};
  struct Whole {
    Key key;
    std::uint32_t version = 0;
  };
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }

  std::vector<Bucket> buckets_;
  std::vector<Whole> keys_;  // Empty until the first is kept.
};

}  // namespace verbatim::offload
