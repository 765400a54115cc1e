#pragma once

#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "base/types.h"
#include "wire/error.h"
#include "wire/ib/aeth.h"
#include "wire/ib/atomic_eth.h"
#include "wire/ib/bth.h"
#include "wire/ib/deth.h"
#include "wire/ib/feth.h"
#include "wire/ib/reth.h"
#include "wire/ib/xrc_eth.h"

/// A transport packet as a value: the BTH, the extended headers that its opcode names, and a
/// borrowed payload. Nothing above `wire/` knows a byte offset.
namespace verbatim::wire {

/// The headers of a transport packet. Of the extended headers those count that `info(bth.opcode)`
/// has.
struct Headers {
  Bth bth;
  XrcEth xrc_eth;
  Deth deth;
  Feth feth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  std::uint64_t atomic_ack = 0;  // AtomicAckETH: the value before the operation.
  std::uint32_t immediate = 0;   // ImmDt, in network byte order as the program gave it.
  MemoryKey invalidate_key{};    // IETH.
  friend bool operator==(const Headers&, const Headers&) = default;
};

/// BTH and every extended header of the longest combination (BTH + XRCETH + AtomicETH).
inline constexpr std::size_t kHeadersMaxBytes = Bth::kSize + 4 + 28;

struct Packet {
  Headers headers;
  ByteSpan payload;  // Without padding; borrowed from the received bytes.
};

/// Decodes what lies between the UDP header and the ICRC (the ICRC itself is not part of `bytes`).
/// Every length is checked: unknown opcode, too short for its headers, padding that is longer than
/// the payload, payload on an opcode that has none.
std::expected<Packet, WireError> decode_packet(ByteSpan bytes);

/// Writes BTH and extended headers to `out` (kHeadersMaxBytes serve every opcode); returns their
/// size in bytes. The opcode is one of the table.
std::size_t encode_headers(const Headers& headers, MutableByteSpan out);

}  // namespace verbatim::wire
