#pragma once

#include <cstdint>
#include <optional>

#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "base/bytes.h"
#include "base/types.h"
#include "region/region_table.h"
#include "wire/net/frame.h"

namespace verbatim::adapter {

/// An Ethernet frame during its delivery to queue pairs and work queues.
struct SteeredFrame {
  ByteSpan bytes;  // Without the frame check sequence.
  const wire::Frame& layers;
  std::uint32_t tag = 0;         // Of the rule that matched.
  bool checksums_valid = false;  // Its IP and TCP or UDP checksums exist and are right.
};

/// Takes a request from `receives`, copies the frame to it and returns the completion; nothing if
/// none was posted. `scratch`: room for the request.
std::optional<Completion> receive_frame(const SteeredFrame& frame, ReceiveQueue& receives,
                                        ReceiveRequest& scratch, const region::RegionTable& regions,
                                        PdNumber pd);

}  // namespace verbatim::adapter
