#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/net/address.h"
#include "base/types.h"

/// How a connection begins, as both sides' engines see it.
namespace verbatim::ulp {

/// At most what a REP carries (IBA 12.6.8). A REQ has 92, of which rdma_cm's header takes 36.
using PrivateData = InplaceVector<std::byte, 196>;

/// Cuts what is longer.
PrivateData to_private_data(ByteSpan bytes);

/// READs and atomics that a side has outstanding. As the *other* side said them, so `initiator` is
/// how many READs we may have in flight: min(ours, this).
struct ReadDepths {
  std::uint8_t initiator = 0;
  std::uint8_t responder = 0;
};

/// A peer asks for a connection.
struct Meeting {
  SocketAddress peer;  // Empty for a service of the InfiniBand CM, which has no IP addresses.
  SocketAddress own;   // The address that the peer has used, with our port. Empty likewise.
  Gid peer_gid{};
  Gid own_gid{};
  ReadDepths reads{};
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;  // 0: one receive that is missing ends the connection.
  bool is_iwarp = false;             // READs need remote_write, one slice each; no immediate data.
  /// Over iWARP as long as the peer sent it; otherwise zeros follow, for the CM tells no length.
  PrivateData private_data;
};

/// What a queue pair and its share of the receives must hold.
struct QueueSizes {
  std::uint32_t sends = 128;        // Work requests, READs and WRITEs included.
  std::uint32_t receives = 32;      // That this connection adds to the shared receives.
  std::uint32_t receive_bytes = 0;  // Of each.
  std::uint32_t send_slices = 16;   // Of one work request; the adapter may have fewer.
  std::uint32_t inline_bytes = 64;  // Of a SEND that is posted without a buffer for its header.
  /// The driver takes the least of this, the peer's, the device's.
  std::uint8_t reads_in_flight = 16;
};

/// `words`: why, with the values of both sides, for the log and `verbatim status`.
struct Rejection {
  PrivateData private_data;
  std::string words;
};

}  // namespace verbatim::ulp
