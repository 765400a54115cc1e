#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

/// Markers (RFC 5044, section 4.3): if a receiver wants them, the stream has four bytes at every
/// 512th byte, counted from the first FPDU with the markers included. They give the distance back
/// to the start of the FPDU that they are in. A marker between two FPDUs belongs to the second. The
/// CRC covers markers.
///
///     byte   0-1        2-3
///          +----------+------------------------------------------+
///          | reserved | bytes since the FPDU's length field      |
///          +----------+------------------------------------------+
namespace verbatim::wire {

inline constexpr std::size_t kMarkerInterval = 512;
inline constexpr std::size_t kMarkerBytes = 4;

/// Returns the size of an FPDU of `fpdu_bytes` with its markers, if it begins at byte `position` of
/// the stream. Both are multiples of four.
std::size_t marked_bytes(std::uint64_t position, std::size_t fpdu_bytes);
/// Inserts the markers into the FPDU at the start of `marked`, which has marked_bytes().
void insert_markers(MutableByteSpan marked, std::uint64_t position, std::size_t fpdu_bytes);
/// Removes the markers; the FPDU is then at the start of `marked`. Returns false if a marker has a
/// wrong distance.
bool remove_markers(MutableByteSpan marked, std::uint64_t position);

}  // namespace verbatim::wire
