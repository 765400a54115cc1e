#pragma once

#include <cstdint>
#include <expected>
#include <optional>

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

/// A transport packet as a value: the BTH, the extended headers of its opcode, and a borrowed
/// payload. Nothing above `wire/` knows a byte offset.
namespace verbatim::wire {

/// The headers of a transport packet. Only those extended headers are valid that `info(bth.opcode)`
/// lists.
struct Headers {
  Bth bth;
  XrcEth xrc_eth;
  Deth deth;
  Feth feth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  std::uint64_t atomic_ack = 0;  // AtomicAckETH: the value before the operation.
  std::uint32_t immediate = 0;   // ImmDt, in network byte order, as the program passes it.
  MemoryKey invalidate_key{};    // IETH.
  friend bool operator==(const Headers&, const Headers&) = default;
};

/// Size of the longest combination of BTH and extended headers (BTH + XRCETH + AtomicETH).
inline constexpr std::size_t kHeadersMaxBytes = Bth::kSize + 4 + 28;

struct Packet {
  Headers headers;
  ByteSpan payload;  // Borrowed from the received bytes; without padding.
  /// The BTH alone is valid: the opcode is reserved, or what follows does not belong to it.
  bool is_invalid = false;
};

/// Decodes the bytes between the UDP header and the ICRC, which is not part of `bytes`. Checks
/// every length and refuses an unknown opcode, a packet that is too short for its headers, more
/// padding than payload, and a payload that the opcode does not have.
std::expected<Packet, WireError> decode_packet(ByteSpan bytes);

/// Of a packet that `decode_packet` refuses: a request of a reliable service, invalid but for its
/// BTH. The responder must not drop it, but answer "invalid request" (IBA 9.9.3). Nothing for any
/// other packet.
std::optional<Packet> decode_invalid_request(ByteSpan bytes);

/// Writes the BTH and extended headers to `out` (kHeadersMaxBytes are enough for every opcode) and
/// returns their size in bytes. The opcode must be in the table.
std::size_t encode_headers(const Headers& headers, MutableByteSpan out);

}  // namespace verbatim::wire
