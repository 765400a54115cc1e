#include "ulp/disk/held_ranges.h"

#include <algorithm>

namespace verbatim::ulp::disk {

void HeldRanges::add(Tag piece, std::uint64_t offset, std::uint64_t bytes, std::uint32_t path,
                     TimeNs until) {
  if (ranges_.size() == kMax) {
    for (const Range& range : ranges_) until = std::max(until, range.until);
    ranges_.assign(1, {kNoTag, 0, ~std::uint64_t{0}, kAnyPath, until});
  }
  ranges_.push_back({piece, offset, bytes, path, until});
}

TimeNs HeldRanges::held_until(Tag piece, std::uint64_t offset, std::uint64_t bytes, TimeNs now) {
  std::erase_if(ranges_, [&](const Range& range) { return range.until <= now; });
  TimeNs until = 0;
  for (const Range& range : ranges_) {
    const bool overlaps =
        offset < range.offset ? range.offset - offset < bytes : offset - range.offset < range.bytes;
    if (overlaps && range.piece != piece) until = std::max(until, range.until);
  }
  return until;
}

void HeldRanges::release(std::uint32_t path) {
  std::erase_if(ranges_, [&](const Range& range) { return range.path == path; });
}

void HeldRanges::forget(Tag piece) {
  for (Range& range : ranges_) {
    if (range.piece == piece) range.piece = kNoTag;
  }
}

}  // namespace verbatim::ulp::disk
