#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/net/grh.h"
#include "wire/net/ip.h"

/// The GRH of a packet whose flow is known, and what stands in its place for receivers.
namespace verbatim::wire {

/// Writes the GRH of a RoCE v1 packet of `packet_bytes`, from the BTH to the end of the ICRC.
void encode_packet_grh(const IpFlow& flow, std::size_t packet_bytes,
                       std::span<std::byte, Grh::kSize> out);

/// Writes the 40 bytes before the payload in a UD receive buffer. RoCE v1: the GRH. IPv6: the IPv6
/// header. IPv4: 20 zero bytes, then the IPv4 header with a right checksum, by which receivers
/// recognise it.
void encode_receive_grh(const IpUdp& headers, std::span<std::byte, Grh::kSize> out);

/// The value that a UD completion has in place of InfiniBand's service level: it tells whether the
/// packet came over IPv4 or IPv6 (IBA A17.4.5.1), in the format of NVIDIA's cards, which UCX relies
/// on. Bit 3: UDP; bits 1 and 0: 0 for a GRH (RoCE v1), 1 IPv6, 2 IPv4.
std::uint8_t packet_type(const IpFlow& flow);

}  // namespace verbatim::wire
