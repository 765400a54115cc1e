#pragma once

#include <array>
#include <cstdint>

#include "fabric/protocol/messages.h"

namespace verbatim::fabric::protocol {

/// An IP address and a UDP port; IPv4 as ::ffff:a.b.c.d. Port 0: not told.
struct UdpAddress {
  std::array<std::uint8_t, 16> ip{};
  std::uint32_t scope_id = 0;
  std::uint16_t port = 0;
};

/// Plugs a trunk into a port that has no cable: it leads to a fabric elsewhere.
struct TrunkRequest {
  static constexpr MessageType kType = MessageType::trunk_request;
  Header header{.type = kType};
  HostName node{};  // A host, switch or router.
  std::uint8_t port = 0;
  std::uint8_t width = 0;  // A LinkWidth,
  std::uint8_t speed = 0;  // and a LinkSpeed.
  UdpAddress listen;       // One of both at least is told.
  UdpAddress peer;
};

}  // namespace verbatim::fabric::protocol
