#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <expected>
#include <span>

#include "adapter/held_memory.h"
#include "adapter/receive_queue.h"
#include "base/bytes.h"
#include "region/region_table.h"

/// Walking scatter/gather lists, with the checks of each element's key.
namespace verbatim::adapter {

/// Calls `use(hold, length)` for the pieces of bytes [offset, offset + length) of the list, in
/// order; every piece is held with `rights`. Ends at the first refusal, or where `use` says false:
/// the memory is gone.
template <typename Use>
std::expected<void, region::KeyError> for_each_piece(const region::RegionTable& regions,
                                                     PdNumber pd, std::span<const Segment> segments,
                                                     std::uint64_t offset, std::uint64_t length,
                                                     std::uint32_t rights, Use use) {
  for (const Segment& segment : segments) {
    if (length == 0) return {};
    if (offset >= segment.length) {
      offset -= segment.length;
      continue;
    }
    const auto piece = std::min<std::uint64_t>(segment.length - offset, length);
    auto hold = regions.hold(MemoryKey{segment.key}, segment.address + offset, piece, rights, pd);
    if (!hold) return std::unexpected(hold.error());
    if (!use(std::move(*hold), static_cast<std::uint32_t>(piece))) {
      return std::unexpected(region::KeyError::not_mapped);
    }
    offset = 0;
    length -= piece;
  }
  return {};
}

/// Copies `payload` to bytes [offset, ...) of the list.
inline std::expected<void, region::KeyError> scatter(const region::RegionTable& regions,
                                                     PdNumber pd, std::span<const Segment> segments,
                                                     std::uint64_t offset, ByteSpan payload) {
  const std::byte* from = payload.data();
  return for_each_piece(regions, pd, segments, offset, payload.size(), region::kLocalWrite,
                        [&](region::Hold hold, std::uint32_t length) {
                          const ByteSpan piece(from, length);
                          from += length;
                          return write_held(hold, piece);
                        });
}

}  // namespace verbatim::adapter
