#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace verbatim::config {

/// What a node's adapter speaks with others.
enum class WireProtocol : std::uint8_t {
  roce,   // InfiniBand's transport over Ethernet: UDP (v2) or frames of its own (v1).
  iwarp,  // RDMAP over TCP.
};

/// "roce", "iwarp". EINVAL.
Result<WireProtocol> parse_wire_protocol(std::string_view name);
std::string_view name_of(WireProtocol protocol);

}  // namespace verbatim::config
