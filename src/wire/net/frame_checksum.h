#pragma once

#include "base/bytes.h"
#include "wire/net/frame.h"

/// The Internet checksums (RFC 1071) of a frame's IPv4, TCP and UDP headers, which a network card
/// offloads. `layers` is the result of `parse_frame` for the same bytes.
namespace verbatim::wire {

/// Returns true if there is a complete IP packet with TCP or UDP and all its checksums are right. A
/// UDP checksum of zero over IPv4 means "none" and is right.
bool checksums_valid(ByteSpan frame, const FrameLayers& layers);

/// Writes the checksums of the layers that are there. A fragment's TCP or UDP checksum stays
/// unchanged, because it covers bytes of other fragments.
void fill_checksums(MutableByteSpan frame, const FrameLayers& layers);

}  // namespace verbatim::wire
