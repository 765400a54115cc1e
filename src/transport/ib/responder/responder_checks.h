#pragma once

#include <cstdint>
#include <optional>

#include "base/types.h"
#include "region/region_table.h"
#include "transport/ib/responder/responder_config.h"
#include "wire/ib/packet.h"

/// Checks on a request packet with the expected PSN (IBA volume 1, section 9.7.4.1). They have no
/// side effects. RC and UC share them: RC answers a violation with a NAK, UC drops the message.
namespace verbatim::transport {

/// Longest message (IBA volume 1, section 9.7.4.1: DMA lengths are 0 to 2^31).
inline constexpr std::uint32_t kMessageBytesMax = 1u << 31;

/// A SEND or WRITE whose first packet has arrived, but not its last.
struct IncomingMessage {
  bool active = false;
  wire::Verb verb{};
  SrqNumber srq{};  // XRC: the queue that its packets name.
  MemoryKey key{};  // WRITE: from the first packet's RETH, as are the next two.
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t received = 0;  // Bytes so far.
};

/// Checks that the packet's position (first, middle, last, only) and verb may follow the previous
/// packet of the message.
bool follows(const wire::OpcodeInfo& info, const IncomingMessage& message);

/// Checks the opcode sequence, and that the queue pair supports the operation.
std::optional<wire::NakCode> check_operation(const wire::OpcodeInfo& info,
                                             const IncomingMessage& message,
                                             const ResponderConfig& config);

/// Checks lengths, alignment and, for the first packet of a message, the key.
std::optional<wire::NakCode> check_content(const wire::Packet& packet, const wire::OpcodeInfo& info,
                                           const IncomingMessage& message,
                                           const ResponderConfig& config,
                                           const region::RegionTable& regions);

/// Returns the access right that an operation needs, of the queue pair and of the region.
constexpr std::uint32_t right_for(wire::Verb verb) {
  switch (verb) {
    case wire::Verb::write:
    case wire::Verb::atomic_write:
      return region::kRemoteWrite;
    case wire::Verb::read_request:
      return region::kRemoteRead;
    case wire::Verb::compare_swap:
    case wire::Verb::fetch_add:
      return region::kRemoteAtomic;
    default:
      return 0;
  }
}
std::uint32_t right_for(const wire::Feth& flush);
/// Annex A19: returns true if the FLUSH's selectivity and placement types are valid.
bool is_known(const wire::Feth& flush);

/// Returns true for requests that have their own response, which is remembered for repetitions.
bool is_remembered(wire::Verb verb);

/// Returns true if this packet takes a receive request: the first of a SEND, the last of a WRITE
/// with immediate.
bool needs_receive(const wire::OpcodeInfo& info);

}  // namespace verbatim::transport
