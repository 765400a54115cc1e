#pragma once

#include "base/bytes.h"

namespace verbatim::link {

/// An Ethernet frame as it was on the link, VLAN tags included, without the frame check sequence.
struct ReceivedFrame {
  MutableByteSpan bytes;  // Valid during the callback.
  bool sent = false;      // By the node itself (or by its host's kernel), on its way out.
  /// A sender on this machine left the checksums to an interface that has none to compute.
  bool checksums_missing = false;
};

}  // namespace verbatim::link
