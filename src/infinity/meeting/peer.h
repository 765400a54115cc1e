#pragma once

#include <cstdint>
#include <optional>

#include <infiniband/verbs.h>

#include "infinity/device.h"

namespace infinity::detail {

/// Destination and parameters of a queue pair over InfiniBand or RoCE.
struct PeerAddress {
  std::uint16_t lid = 0;
  std::optional<ibv_gid> gid;      // RoCE; nothing: only the LID counts.
  std::uint8_t own_gid_index = 0;  // RoCE.
  ibv_mtu mtu = IBV_MTU_4096;      // Infinity's value, which both sides must use.
  std::uint32_t queue_pair = 0;
  std::uint32_t sequence_number = 0;
  std::uint8_t reads = 1;  // In flight, in both directions.
};

}  // namespace infinity::detail
