#pragma once

#include <cstdint>
#include <optional>

#include <infinity/queues/QueuePair.h>

namespace infinity::queues {

/// A request without its local memory.
struct QueuePair::Request {
  const char* call;
  ibv_wr_opcode opcode;
  OperationFlags flags;
  requests::RequestToken* token = nullptr;
  memory::RegionToken* remote = nullptr;  // Null for SEND.
  uint64_t remote_offset = 0;
  std::optional<uint32_t> immediate = std::nullopt;
  uint64_t compare_or_add = 0;
  uint64_t swap = 0;
};

}  // namespace infinity::queues
