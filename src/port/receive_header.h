#pragma once

#include <array>
#include <cstddef>

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

/// Header data of a datagram on the direct path, in addition to its request.
struct Datagram {
  QKey qkey{};
  const wire::IpFlow& flow;
};

}  // namespace verbatim::port
