#include "offload/switch/key_cache.h"

#include <algorithm>

namespace verbatim::offload {

std::uint32_t KeyCache::put(std::uint64_t hash, std::uint32_t id) {
  const auto first = static_cast<std::uint32_t>(hash % kBuckets) * kWays;
  std::uint32_t at = find(hash);
  if (at == kNone) {
    Bucket& bucket = buckets_[hash % kBuckets];
    const auto empty = std::ranges::find(bucket, kNoRule, &Entry::id);
    at = first + (empty != bucket.end() ? static_cast<std::uint32_t>(empty - bucket.begin())
                                        : tag_of(hash) % kWays);
  }
  buckets_[at / kWays][at % kWays] = {tag_of(hash), id};
  return at;
}

void KeyCache::clear() { std::ranges::fill(buckets_, Bucket{}); }

void KeyCache::keep_key(std::uint32_t at, const Key& key, std::uint32_t version) {
  if (keys_.empty()) keys_.resize(kBuckets * kWays);
  keys_[at] = {key, version};
}

}  // namespace verbatim::offload
