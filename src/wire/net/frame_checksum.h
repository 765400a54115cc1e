#pragma once

#include "base/bytes.h"
#include "wire/net/frame.h"

/// The Internet checksums (RFC 1071) of a frame's IPv4, TCP and UDP headers: what a network card
/// offloads. `layers` is what `parse_frame` found in the same bytes.
namespace verbatim::wire {

/// True where there is an IP packet with TCP or UDP in it, whole, and all its checksums are right
/// (a UDP checksum of zero over IPv4 says that there is none).
bool checksums_valid(ByteSpan frame, const FrameLayers& layers);

/// Writes the checksums of the layers that are there; the TCP or UDP checksum of a fragment stays,
/// since it covers what is not here.
void fill_checksums(MutableByteSpan frame, const FrameLayers& layers);

}  // namespace verbatim::wire
