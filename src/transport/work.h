#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/completion_status.h"
#include "base/types.h"
#include "transport/operation.h"
#include "wire/ib/packet.h"

/// What engines and the adapter say to each other: requests in, effects (effects.h) out.
namespace verbatim::transport {

using Status = CompletionStatus;

/// A send request as the engine sees it. Its memory (scatter/gather list or inline bytes) stays
/// with the adapter, which finds it by the request's slot.
struct SendRequest {
  Operation operation{};
  bool fence = false;
  bool solicited = false;
  std::uint32_t immediate = 0;  // As on the wire: network byte order, opaque to us.
  std::uint64_t length = 0;     // Bytes of all scatter/gather elements (8 for atomics).
  std::uint64_t remote_address = 0;
  MemoryKey remote_key{};  // With invalidate, remote or local: the key that ends.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  SrqNumber remote_srq{};         // XRC: whose receive requests and protection domain serve it.
  std::uint32_t flush_bytes = 0;  // FLUSH: of the range at `remote_address`.
  wire::Feth flush{};             // FLUSH: how far, and of what.
};

/// Names a posted request of one queue pair: requests are counted from 0 as they are posted; the
/// adapter's ring index is `slot % capacity`.
using Slot = std::uint64_t;

/// Where the payload of an outgoing packet lies.
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
  PdNumber pd{};    // Of the region.
  SrqNumber srq{};  // XRC: that the request named.
};

}  // namespace verbatim::transport
