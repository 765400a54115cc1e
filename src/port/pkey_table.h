#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <span>

#include "base/assert.h"
#include "base/types.h"

namespace verbatim::port {

/// The port's P_Key table (IBA 10.9.2). RoCE has the default P_Key alone; over InfiniBand the
/// subnet manager writes the entries, and 0 is an empty one. One thread at a time writes, any
/// thread reads.
class PKeyTable {
 public:
  static constexpr std::size_t kSizeMax = 128;

  std::size_t size() const { return size_.load(std::memory_order_acquire); }
  /// Returns an empty entry for an index beyond the table.
  PKey at(std::size_t index) const {
    return index < size() ? entries_[index].load(std::memory_order_relaxed) : PKey{};
  }
  /// At most `kSizeMax` entries.
  void set(std::span<const PKey> entries) {
    VERBATIM_ASSERT(entries.size() <= kSizeMax);
    size_.store(std::min(size(), entries.size()), std::memory_order_relaxed);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entries_[i].store(entries[i], std::memory_order_relaxed);
    }
    size_.store(entries.size(), std::memory_order_release);
  }

 private:
  std::atomic<std::size_t> size_{1};
  std::array<std::atomic<PKey>, kSizeMax> entries_{{kDefaultPKey}};
};

}  // namespace verbatim::port
