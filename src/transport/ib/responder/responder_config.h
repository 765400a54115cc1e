#pragma once

#include <cstdint>

#include "base/types.h"
#include "wire/ib/packet.h"

namespace verbatim::transport {

/// Configuration of a responder, from the queue pair's attributes.
struct ResponderConfig {
  wire::Service service = wire::Service::rc;  // rc, uc or xrc.
  Qpn dest_qp;                                // The peer, to which acknowledgements are sent.
  PKey pkey = kDefaultPKey;
  Psn expected_psn;
  Mtu path_mtu = Mtu::k1024;
  // READs and atomics remembered; at most ResponseQueue::kDepthMax.
  std::uint8_t max_dest_rd_atomic = 1;
  std::uint8_t min_rnr_timer = 12;  // The code of table 45, sent in RNR NAKs.
  /// region::kRemoteWrite | kRemoteRead | kRemoteAtomic | kFlushGlobal | kFlushPersistent.
  std::uint32_t access = 0;
  PdNumber pd{};    // XRC: that of the shared receive queue in each request,
  SrqNumber srq{};  // whose number this is.
  Qpn own_qp;       // Type 2 memory windows are bound to it.
};

}  // namespace verbatim::transport
