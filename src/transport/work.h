#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/completion_status.h"
#include "base/types.h"
#include "transport/operation.h"
#include "wire/ib/packet.h"

/// Values between engines and adapter: requests in, effects (effects.h) out.
namespace verbatim::transport {

using Status = CompletionStatus;

/// A send request as the engine sees it. The adapter keeps its memory (scatter/gather list or
/// inline bytes) and finds it by the request's slot.
struct SendRequest {
  Operation operation{};
  bool fence = false;
  bool solicited = false;
  std::uint32_t immediate = 0;  // In network byte order, as on the wire; opaque.
  std::uint64_t length = 0;     // Bytes of all scatter/gather elements (8 for atomics).
  std::uint64_t remote_address = 0;
  MemoryKey remote_key{};  // With invalidate, remote or local: the key to invalidate.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  SrqNumber
      remote_srq{};  // XRC: the queue that has the receive requests and the protection domain.
  std::uint32_t flush_bytes = 0;  // FLUSH: bytes of the range at `remote_address`.
  wire::Feth flush{};             // FLUSH: placement type and selectivity.
};

/// Names a posted request of one queue pair, counted from 0. The index in the adapter's ring is
/// `slot % capacity`. (The agent's slot is something else: ten bits of a queue pair number.)
using Slot = std::uint64_t;

/// Where the payload of an outgoing packet is.
struct PayloadSource {
  enum class From : std::uint8_t {
    nothing,
    request,  // Bytes [offset, offset + length) of the send request in `slot`.
    region,   // `length` bytes at `address` under `key` and `pd`: a READ response.
  };
  From from = From::nothing;
  std::uint32_t length = 0;
  Slot slot = 0;
  std::uint64_t offset = 0;
  MemoryKey key{};
  std::uint64_t address = 0;
  PdNumber pd{};    // The region's.
  SrqNumber srq{};  // XRC: the queue that the request named.
};

}  // namespace verbatim::transport
