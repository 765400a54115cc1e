#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/net/path.h"
#include "base/types.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

namespace verbatim::port {

/// The bytes before a received datagram's payload, from either path: the GRH of its packet, or 20
/// unused bytes and an IPv4 header (IBA 11.4.2.1, annex A17.4.5.2).
struct DatagramHeader {
  DatagramHeader(const wire::IpFlow& flow, bool immediate, std::size_t payload_bytes);
  std::array<std::byte, wire::Grh::kSize> grh;
};

/// What a completion tells of the way by which a datagram came.
struct DatagramOrigin {
  std::uint8_t service_level = 0;  // RoCE: see `wire::packet_type`.
  std::uint8_t path_bits = 0;      // InfiniBand, as the next one: of the LID that it came to.
  std::uint16_t source_lid = 0;
  bool has_grh = true;
  std::uint8_t port = 0;  // InfiniBand: the adapter's; 0: RoCE.
};
/// `to`: as the packet says. `lmc`: of the port to which it comes.
DatagramOrigin origin_of(const Path& to, const wire::IpFlow& flow, std::uint8_t lmc);

/// Header data of a datagram on the direct path, in addition to its request.
struct Datagram {
  QKey qkey{};
  PKey pkey{};
  const wire::IpFlow& flow;
  const DatagramOrigin& origin;
};

}  // namespace verbatim::port
