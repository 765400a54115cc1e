#pragma once

#include <cstdint>
#include <expected>
#include <utility>

#include "region/region_table.h"

namespace verbatim::region {

/// Caches a hold from packet to packet: while key, rights and accessor stay the same, only the
/// bounds are checked again.
///
/// Deregistration waits for it. Release it at the end of a burst or pass, and before this thread
/// waits for a deregistration or invalidates a key itself.
class CachedHold {
 public:
  /// As `RegionTable::hold`; the result is valid until the next call.
  std::expected<const Hold*, KeyError> get(const RegionTable& table, MemoryKey key,
                                           std::uint64_t iova, std::uint64_t length,
                                           std::uint32_t rights, const Accessor& by) {
    if (is_of(key, rights, by)) {
      // Refused bytes keep the hold: bytes found before may still be in use.
      if (!hold_.move_to(iova, length)) return std::unexpected(KeyError::out_of_bounds);
      return &hold_;
    }
    release();
    auto fresh = table.hold(key, iova, length, rights, by);
    if (!fresh) return std::unexpected(fresh.error());
    hold_ = std::move(*fresh);
    key_ = key;
    rights_ = rights;
    by_ = by;
    return &hold_;
  }
  bool is_of(MemoryKey key, std::uint32_t rights, const Accessor& by) const {
    return raw(key_) != 0 && key == key_ && rights == rights_ && by == by_;
  }
  void release() {
    hold_ = Hold();
    key_ = MemoryKey{};
  }

 private:
  Hold hold_;
  MemoryKey key_{};  // None: there is no hold.
  std::uint32_t rights_ = 0;
  Accessor by_{PdNumber{}};
};

}  // namespace verbatim::region
