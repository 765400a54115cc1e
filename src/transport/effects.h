#pragma once

#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/types.h"
#include "transport/work.h"

/// The effects of all transport engines: what the adapter has to do.
namespace verbatim::transport {

// Effects of a requester.

/// Copy the payload of a READ response to bytes [offset, ...) of the request's scatter list.
struct PlaceResponse {
  Slot slot = 0;
  std::uint64_t offset = 0;
  ByteSpan payload;  // Borrowed from the packet.
};
/// Store the old value of an atomic in the request's 8 bytes, in host byte order.
struct PlaceAtomic {
  Slot slot = 0;
  std::uint64_t original = 0;
};
/// Complete the request. Comes once for each request, in the order of posting. The adapter decides
/// whether a success enters the completion queue (signalled or not).
struct CompleteRequest {
  Slot slot = 0;
  Status status = Status::success;
};
/// Move the queue pair to the error state; the requester has stopped. The adapter calls `flush`
/// next.
struct RequesterFailed {
  Status status{};
};

using RequesterEffect = std::variant<PlaceResponse, PlaceAtomic, CompleteRequest, RequesterFailed>;

/// The effects of one input. The caller carries them out in order before the next input. One
/// acknowledgement can complete many requests, so the list is bounded: if it is full, it ends with
/// `more` set, and the caller empties it and calls `resume`.
struct RequesterEffects {
  InplaceVector<RequesterEffect, 64> list;
  bool more = false;
};

// Effects of a responder.

/// A receive request that was taken from its queue.
struct Receive {
  std::uint64_t ticket = 0;          // Names the request to the adapter.
  std::uint64_t capacity_bytes = 0;  // Sum of the scatter list.
};

/// Copy a SEND's payload to bytes [offset, ...) of the receive request's scatter list. If the
/// list's memory cannot be written, the adapter calls `on_receive_memory_error`.
struct PlaceReceive {
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  ByteSpan payload;
};
/// Copy a WRITE's payload to `address` under `key`. If the region was deregistered meanwhile:
/// `on_region_error`.
struct PlaceWrite {
  MemoryKey key{};
  std::uint64_t address = 0;
  ByteSpan payload;
};
/// Execute an atomic on 8 aligned bytes at `address` under `key`, then call `on_atomic_result` with
/// the old value.
struct ExecuteAtomic {
  MemoryKey key{};
  std::uint64_t address = 0;
  bool compare_and_swap = false;  // If not: fetch and add.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
};
/// Store 8 bytes in one step at the aligned `address` under `key`, then call `on_atomic_result`.
struct ExecuteAtomicWrite {
  MemoryKey key{};
  std::uint64_t address = 0;
  std::uint64_t value = 0;  // In the byte order of the program's memory, not in network byte order.
};
/// Flush all bytes that were placed before, as far as `placement` says, then call
/// `on_atomic_result`.
struct ExecuteFlush {
  std::uint8_t placement = 0;  // Bits of wire::Feth::Placement.
};
/// Invalidate the memory window with this key, on behalf of the peer; comes with the last packet of
/// a SEND. If the key has become invalid meanwhile: `on_region_error`.
struct InvalidateKey {
  MemoryKey key{};
};
/// Complete the receive request, with an entry in the completion queue.
struct CompleteReceive {
  std::uint64_t ticket = 0;
  Status status = Status::success;
  std::uint64_t byte_count = 0;
  bool is_write = false;  // RDMA WRITE with immediate: the receive's buffer has no payload.
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  bool has_invalidated_key = false;
  MemoryKey invalidated_key{};
  bool solicited = false;
};
/// The first packet has arrived while the queue pair is in RTR (IBV_EVENT_COMM_EST).
struct Established {};
/// Move the queue pair to the error state. `event`: the asynchronous event to raise.
struct ResponderFailed {
  enum class Event : std::uint8_t { none, request_error, access_error, fatal };
  Event event = Event::none;
};

using ResponderEffect =
    std::variant<PlaceReceive, PlaceWrite, ExecuteAtomic, ExecuteAtomicWrite, ExecuteFlush,
                 InvalidateKey, CompleteReceive, Established, ResponderFailed>;
using ResponderEffects = InplaceVector<ResponderEffect, 8>;

}  // namespace verbatim::transport
