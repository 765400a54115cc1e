#pragma once

#include <algorithm>
#include <cstdint>

#include "fabric/data/image/image.h"

namespace verbatim::fabric {

/// Visits the slots that are not free: `visit(handle, slot, where)`. Passes by slots that nobody
/// has used yet: to read a page that was never written would make it resident.
template <typename Visit>
void for_each_used_slot(const Image& image, Visit visit) {
  const auto visit_range = [&](Handle first, std::uint32_t count) {
    for (Handle handle = first; handle < first + count; ++handle) {
      Slot& slot = image.slot(handle);
      const Where where(slot.where.load(std::memory_order_acquire));
      if (where.kind() != Where::kFree) visit(handle, slot, where);
    }
  };
  for (std::uint32_t end = 0; end < image.extent().ends; ++end) {
    if (image.end(end).generation.load() != 0) {
      visit_range(image.first_slot_of(end), kSlotsOfAnEnd);
    }
  }
  const Handle first_copy = image.first_copy_slot();
  visit_range(first_copy, std::min(image.extent().slots - first_copy,
                                   image.header().next_copy.load(std::memory_order_relaxed)));
}

}  // namespace verbatim::fabric
