#pragma once

#include <atomic>
#include <cstdint>

#include "arena/flat_path.h"
#include "base/types.h"

namespace verbatim::arena {

// CM connections, established or being set up.
inline constexpr std::uint32_t kConnectionsMax = 1 << 14;

/// A CM connection, for the agent: if the program dies, the agent sends the peer a DREQ, or a REJ
/// if it was being set up. Written by the program; `state` is stored last and cleared first.
struct alignas(64) ConnectionRecord {
  enum State : std::uint8_t {
    kNone,
    kConnecting,
    kEstablished
  };  // Connecting: request or reply sent.
  std::atomic<std::uint8_t> state{kNone};
  std::uint8_t has_sent_reply = 0;  // While connecting: on the passive side.
  std::uint8_t address = 0;         // Index of the node's address that packets are sent from.
  std::uint32_t local_id = 0;       // Communication ids.
  std::uint32_t remote_id = 0;
  std::uint32_t remote_qpn = 0;
  FlatPath path;  // To the peer.
  PKey pkey = kDefaultPKey;
};

}  // namespace verbatim::arena
