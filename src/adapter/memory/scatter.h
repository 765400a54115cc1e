#pragma once

#include <algorithm>
#include <cstdint>
#include <expected>
#include <span>

#include "adapter/queues/receive_queue.h"
#include "base/bytes.h"
#include "region/cached_hold.h"
#include "region/held_memory.h"

/// Iteration over scatter/gather lists, with checks of each element's key.
namespace verbatim::adapter {

/// Calls `use(key, address, length)` for the pieces of bytes [offset, offset + length) of the list,
/// in order, until one returns an error (expected<void, KeyError>).
template <typename Use>
std::expected<void, region::KeyError> for_each_piece(std::span<const Segment> segments,
                                                     std::uint64_t offset, std::uint64_t length,
                                                     Use use) {
  for (const Segment& segment : segments) {
    if (length == 0) return {};
    if (offset >= segment.length) {
      offset -= segment.length;
      continue;
    }
    const auto piece = std::min<std::uint64_t>(segment.length - offset, length);
    const auto used =
        use(MemoryKey{segment.key}, segment.address + offset, static_cast<std::uint32_t>(piece));
    if (!used) return used;
    offset = 0;
    length -= piece;
  }
  return {};
}

/// How a list is written: `region::write_held` or `region::write_unattended`.
using WriteHeld = bool (*)(const region::Hold& hold, ByteSpan from);

/// Copies `payload` to bytes [offset, ...) of the list. The region written last stays held in
/// `kept`.
template <WriteHeld kWrite = region::write_held>
std::expected<void, region::KeyError> scatter(region::CachedHold& kept,
                                              const region::RegionTable& regions, PdNumber pd,
                                              std::span<const Segment> segments,
                                              std::uint64_t offset, ByteSpan payload) {
  using Done = std::expected<void, region::KeyError>;
  return for_each_piece(segments, offset, payload.size(),
                        [&](MemoryKey key, std::uint64_t address, std::uint32_t length) -> Done {
                          const auto hold =
                              kept.get(regions, key, address, length, region::kLocalWrite, pd);
                          if (!hold) return std::unexpected(hold.error());
                          if (!kWrite(**hold, payload.first(length))) {
                            return std::unexpected(region::KeyError::not_mapped);
                          }
                          payload = payload.subspan(length);
                          return {};
                        });
}

/// Copies bytes [offset, ...) of the list to `to`, until it is full.
inline std::expected<void, region::KeyError> gather(const region::RegionTable& regions, PdNumber pd,
                                                    std::span<const Segment> segments,
                                                    std::uint64_t offset, MutableByteSpan to) {
  using Done = std::expected<void, region::KeyError>;
  return for_each_piece(segments, offset, to.size(),
                        [&](MemoryKey key, std::uint64_t address, std::uint32_t length) -> Done {
                          const auto hold =
                              regions.hold(key, address, length, region::kLocalRead, pd);
                          if (!hold) return std::unexpected(hold.error());
                          if (!read_held(*hold, to.first(length))) {
                            return std::unexpected(region::KeyError::not_mapped);
                          }
                          to = to.subspan(length);
                          return {};
                        });
}

}  // namespace verbatim::adapter
