#pragma once

#include <cstdint>
#include <expected>
#include <utility>

#include "region/region_table.h"

namespace verbatim::region {

/// The hold of one who asks for bytes of the same region again and again, packet by packet: the
/// region stays held in between, and only the bounds are checked again.
///
/// Whoever ends or changes a region waits for its holders. So let go before anything that may wait
/// for such a one, at the end of a burst or turn, and before this thread itself invalidates a key.
class CachedHold {
 public:
  /// As `RegionTable::hold`; the hold is good until the next call.
  std::expected<const Hold*, KeyError> get(const RegionTable& table, MemoryKey key,
                                           std::uint64_t iova, std::uint64_t length,
                                           std::uint32_t rights, const Accessor& by) {
    if (is_of(key, rights, by)) {
      // Refused bytes end no hold: those found before may still be in use.
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
  MemoryKey key_{};  // None: nothing is held.
  std::uint32_t rights_ = 0;
  Accessor by_{PdNumber{}};
};

}  // namespace verbatim::region
