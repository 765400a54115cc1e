#pragma once

#include <cstdint>
#include <optional>

#include "base/types.h"
#include "region/region_table.h"
#include "transport/ib/responder/responder_config.h"
#include "wire/ib/packet.h"

/// What a responder checks on a request packet whose PSN is the expected one (IBA volume 1,
/// section 9.7.4.1). Pure questions, which RC and UC share: RC answers a violation with a NAK, UC
/// drops the message.
namespace verbatim::transport {

/// Longest message (IBA volume 1, section 9.7.4.1: DMA lengths are 0 to 2^31).
inline constexpr std::uint32_t kMessageBytesMax = 1u << 31;

/// A SEND or WRITE of which the first packet has come and the last has not.
struct IncomingMessage {
  bool active = false;
  wire::Verb verb{};
  SrqNumber srq{};  // XRC: that its packets name.
  MemoryKey key{};  // WRITE: from the RETH of its first packet, as the next two.
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t received = 0;  // Bytes so far.
};

/// Whether first, middle, last and only follow each other as they must.
bool follows(const wire::OpcodeInfo& info, const IncomingMessage& message);

/// Opcode sequence and whether the queue pair serves this operation at all.
std::optional<wire::NakCode> check_operation(const wire::OpcodeInfo& info,
                                             const IncomingMessage& message,
                                             const ResponderConfig& config);

/// Lengths, alignment and, at the first packet of a message, the key.
std::optional<wire::NakCode> check_content(const wire::Packet& packet, const wire::OpcodeInfo& info,
                                           const IncomingMessage& message,
                                           const ResponderConfig& config,
                                           const region::RegionTable& regions);

/// The right that an operation needs, of the queue pair and of the region.
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
/// Annex A19: whether a FLUSH says what is to be flushed, and how far.
bool is_known(const wire::Feth& flush);

/// Requests that are answered by a response of their own, and remembered for repetitions.
bool is_remembered(wire::Verb verb);

/// Whether this packet takes a receive request: the first of a SEND, the last of a WRITE with
/// immediate.
bool needs_receive(const wire::OpcodeInfo& info);

}  // namespace verbatim::transport
