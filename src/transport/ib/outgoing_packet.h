#pragma once

#include "transport/work.h"
#include "wire/ib/packet.h"

namespace verbatim::transport {

/// A packet to send. `headers.bth.dest_qp`, `pkey` and `pad_count` are filled in by the engine.
struct OutgoingPacket {
  wire::Headers headers;
  PayloadSource payload;
};

}  // namespace verbatim::transport
