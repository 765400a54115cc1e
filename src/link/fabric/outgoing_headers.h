#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/net/path.h"
#include "base/types.h"

namespace verbatim::link {

/// What switches and hosts look at: of LRH and BTH.
struct OutgoingHeaders {
  Lid dlid{};
  std::uint8_t service_level = 0;
  Qpn destination;
  PKey p_key{};
  friend bool operator==(const OutgoingHeaders&, const OutgoingHeaders&) = default;
};

/// Nothing: the packet is too short for its headers, or has another transport.
std::optional<OutgoingHeaders> outgoing_headers(ByteSpan packet);

}  // namespace verbatim::link
