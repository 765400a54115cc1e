#pragma once

#include <cstdint>

#include "base/types.h"
#include "wire/ib/packet.h"

namespace verbatim::transport {

/// What a queue pair's attributes make of its responder.
struct ResponderConfig {
  wire::Service service = wire::Service::rc;  // rc, uc or xrc.
  Qpn dest_qp;                                // The peer: where acknowledgements go.
  PKey pkey = kDefaultPKey;
  Psn expected_psn;
  Mtu path_mtu = Mtu::k1024;
  std::uint8_t max_dest_rd_atomic =
      1;  // READs and atomics remembered; at most ResponseQueue::kDepthMax.
  std::uint8_t min_rnr_timer = 12;  // The code of table 45, sent in RNR NAKs.
  /// region::kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent.
  std::uint32_t access = 0;
  PdNumber pd{};    // XRC: of the shared receive queue that each request names,
  SrqNumber srq{};  // which is this one.
  Qpn own_qp;       // What type 2 memory windows are bound to.
};

}  // namespace verbatim::transport
