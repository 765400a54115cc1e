#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

/// Markers (RFC 5044, section 4.3): where a receiver wants them, four bytes stand in the stream at
/// every 512th byte from the first FPDU on, themselves counted, and tell how far before them the
/// FPDU begins that they are in. One between two FPDUs belongs to the second. The CRC covers them.
///
///     byte   0-1        2-3
///          +----------+------------------------------------------+
///          | reserved | bytes since the FPDU's length field      |
///          +----------+------------------------------------------+
namespace verbatim::wire {

inline constexpr std::size_t kMarkerInterval = 512;
inline constexpr std::size_t kMarkerBytes = 4;

/// What an FPDU of `fpdu_bytes` takes with its markers, where it begins at byte `position` of the
/// stream. Both are multiples of four.
std::size_t marked_bytes(std::uint64_t position, std::size_t fpdu_bytes);
/// Moves the FPDU at the start of `marked`, which has marked_bytes(), apart and writes the markers.
void insert_markers(MutableByteSpan marked, std::uint64_t position, std::size_t fpdu_bytes);
/// The same the other way: the FPDU is at the start of `marked` then. False: a marker tells
/// something else.
bool remove_markers(MutableByteSpan marked, std::uint64_t position);

}  // namespace verbatim::wire
