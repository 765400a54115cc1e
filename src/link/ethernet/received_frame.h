#pragma once

#include "base/bytes.h"

namespace verbatim::link {

/// An Ethernet frame as on the link, with VLAN tags, without the frame check sequence.
struct ReceivedFrame {
  MutableByteSpan bytes;  // Valid during the callback.
  bool sent = false;      // Outgoing: sent by the node itself or by its host's kernel.
  /// A sender on this machine left the checksums to the interface, which does not compute them.
  bool checksums_missing = false;
};

}  // namespace verbatim::link
