#pragma once

#include <cstdint>

#include "base/net/path.h"
#include "base/types.h"
#include "wire/mad/management_packet.h"

namespace verbatim::mad {

/// A management datagram with what its headers say beside it.
struct Mad {
  Path peer;                      // Whom it comes from, or goes to.
  std::uint32_t own_address = 0;  // Of the node's: which one it was sent to.
  Qpn source_qpn = wire::kManagementQpn;
  std::uint16_t pkey_index = 0;
  wire::MadSpan bytes;
};

}  // namespace verbatim::mad
