#include "wire/iwarp/mpa_markers.h"

#include <algorithm>
#include <cstring>

namespace verbatim::wire {
namespace {

/// Bytes between two markers.
constexpr std::size_t kBetween = kMarkerInterval - kMarkerBytes;

/// Returns the number of bytes before the first marker from `position` on.
std::size_t before_marker(std::uint64_t position) { return -position % kMarkerInterval; }

/// Returns the number of markers in an FPDU of this size. A marker right after its end belongs to
/// the next one.
std::size_t marker_count(std::uint64_t position, std::size_t fpdu_bytes) {
  const std::size_t before = before_marker(position);
  return fpdu_bytes <= before ? 0 : (fpdu_bytes - before - 1) / kBetween + 1;
}

/// Returns the distance from the length field to the marker at `at`; 0 for a marker before that
/// field.
std::uint16_t pointer_at(std::size_t at, std::size_t before_first) {
  const std::size_t start = before_first == 0 ? kMarkerBytes : 0;
  return static_cast<std::uint16_t>(at == 0 ? 0 : at - start);
}

}  // namespace

std::size_t marked_bytes(std::uint64_t position, std::size_t fpdu_bytes) {
  return fpdu_bytes + kMarkerBytes * marker_count(position, fpdu_bytes);
}

void insert_markers(MutableByteSpan marked, std::uint64_t position, std::size_t fpdu_bytes) {
  const std::size_t first = before_marker(position);
  for (std::size_t i = marker_count(position, fpdu_bytes); i-- > 0;) {
    const std::size_t at = first + i * kMarkerInterval;
    const std::size_t from = at - i * kMarkerBytes;
    const std::size_t length = std::min(kBetween, fpdu_bytes - from);
    std::memmove(&marked[at + kMarkerBytes], &marked[from], length);
    store_be(&marked[at], std::uint16_t{0});
    store_be(&marked[at + 2], pointer_at(at, first));
  }
}

bool remove_markers(MutableByteSpan marked, std::uint64_t position) {
  const std::size_t first = before_marker(position);
  std::size_t to = first;
  for (std::size_t at = first; at < marked.size(); at += kMarkerInterval) {
    if (load_be<std::uint16_t>(&marked[at + 2]) != pointer_at(at, first)) return false;
    const std::size_t length = std::min(kBetween, marked.size() - at - kMarkerBytes);
    std::memmove(&marked[to], &marked[at + kMarkerBytes], length);
    to += length;
  }
  return true;
}

}  // namespace verbatim::wire
