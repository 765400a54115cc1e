#pragma once

#include <atomic>
#include <cstdint>

#include "arena/flat_path.h"
#include "base/types.h"

namespace verbatim::arena {

inline constexpr std::uint32_t kConnectionsMax = 1 << 14;  // Of the CM, set up or being so.

/// A connection of the CM, for the agent: it says farewell to the peer when the program dies.
/// Written by its owner, `state` last (and first when it goes).
struct alignas(64) ConnectionRecord {
  enum State : std::uint8_t {
    kNone,
    kConnecting,
    kEstablished
  };  // Connecting: request or reply sent.
  std::atomic<std::uint8_t> state{kNone};
  std::uint8_t has_sent_reply = 0;  // Connecting: the passive side.
  std::uint8_t address = 0;         // Of the node's addresses: where packets leave from.
  std::uint32_t local_id = 0;       // Communication ids.
  std::uint32_t remote_id = 0;
  std::uint32_t remote_qpn = 0;
  FlatPath path;  // To the peer.
  PKey pkey = kDefaultPKey;
};

}  // namespace verbatim::arena
