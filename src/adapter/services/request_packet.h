#pragma once

#include <cstdint>

#include "adapter/memory/scatter.h"
#include "adapter/queue_pair/core/core.h"
#include "port/burst.h"
#include "region/region_table.h"
#include "transport/ib/outgoing_packet.h"
#include "transport/work.h"

namespace verbatim::adapter::services {

/// Appends the part of a send request's bytes that a packet carries. Returns false if their memory
/// refuses.
inline bool append_request_bytes(const QueuePairCore& core, port::Burst& burst,
                                 const transport::PayloadSource& part) {
  const SendQueue& sends = core.sends;
  if (sends.wqe(part.slot).inlined) {
    burst.append_bytes(sends.inline_bytes(part.slot).data() + part.offset, part.length);
    return true;
  }
  const auto append = [&](MemoryKey key, std::uint64_t address, std::uint32_t bytes) {
    return burst.append(core.regions, key, address, bytes, region::kLocalRead, core.options.pd);
  };
  return for_each_piece(sends.segments(part.slot), part.offset, part.length, append).has_value();
}

/// Adds a packet of a send request. Returns false if its memory refuses.
inline bool add_request_packet(const QueuePairCore& core, port::Burst& burst,
                               const transport::OutgoingPacket& packet) {
  burst.begin(packet.headers, packet.payload.length);
  if (packet.payload.length > 0 && !append_request_bytes(core, burst, packet.payload)) {
    burst.abandon();
    return false;
  }
  burst.end();
  return true;
}

/// Returns false if the link does not take a packet with so much payload now; then a later pass
/// runs the queue pair.
inline bool has_room(QueuePairCore& core, port::Burst& burst, std::uint32_t payload_bytes_max) {
  if (burst.may_send(payload_bytes_max)) return true;
  core.await_room();  // Before the second look: room that comes from now on is told.
  return burst.may_send(payload_bytes_max);
}

}  // namespace verbatim::adapter::services
