#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace verbatim::config {

/// The protocol between a node's adapter and others.
enum class WireProtocol : std::uint8_t {
  roce,        // InfiniBand's transport over Ethernet: in UDP (v2) or in its own frames (v1).
  iwarp,       // RDMAP over TCP.
  infiniband,  // InfiniBand's transport over a fabric: of a node with a `host`.
};

/// Parses "roce" or "iwarp". EINVAL for others: a node is on InfiniBand by its `host`.
Result<WireProtocol> parse_wire_protocol(std::string_view name);
std::string_view name_of(WireProtocol protocol);

}  // namespace verbatim::config
