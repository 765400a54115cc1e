#pragma once

#include <cstdint>
#include <variant>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/types.h"
#include "transport/work.h"

/// What the engines of every transport ask of the adapter.
namespace verbatim::transport {

// Of a requester.

/// The payload of a READ response goes to bytes [offset, ...) of the request's scatter list.
struct PlaceResponse {
  Slot slot = 0;
  std::uint64_t offset = 0;
  ByteSpan payload;  // Borrowed from the packet.
};
/// The value before an atomic goes into the request's 8 bytes, in host byte order.
struct PlaceAtomic {
  Slot slot = 0;
  std::uint64_t original = 0;
};
/// The request has ended: exactly once each, in the order of posting. Whether a success enters the
/// completion queue (signalled or not) is the adapter's matter.
struct CompleteRequest {
  Slot slot = 0;
  Status status = Status::success;
};
/// The queue pair goes to the error state; the requester has stopped. The adapter calls `flush`
/// next.
struct RequesterFailed {
  Status status{};
};

using RequesterEffect = std::variant<PlaceResponse, PlaceAtomic, CompleteRequest, RequesterFailed>;

/// What an input brings about, to be drained in order before the next input. One acknowledgement
/// can complete many requests, so the list is bounded: when it is full it ends with `more` set, and
/// the caller calls `resume` with an empty list after draining.
struct RequesterEffects {
  InplaceVector<RequesterEffect, 64> list;
  bool more = false;
};

// Of a responder.

/// A receive request, taken from its queue.
struct Receive {
  std::uint64_t ticket = 0;          // The adapter's name for it.
  std::uint64_t capacity_bytes = 0;  // Sum of its scatter list.
};

/// Payload of a SEND: to bytes [offset, ...) of the receive request's scatter list. If the list's
/// memory refuses, the adapter calls `on_receive_memory_error`.
struct PlaceReceive {
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  ByteSpan payload;
};
/// Payload of a WRITE: to `address` under `key`. If the region has gone meanwhile:
/// `on_region_error`.
struct PlaceWrite {
  MemoryKey key{};
  std::uint64_t address = 0;
  ByteSpan payload;
};
/// Execute on 8 aligned bytes at `address` under `key`, then call `on_atomic_result` with the value
/// before.
struct ExecuteAtomic {
  MemoryKey key{};
  std::uint64_t address = 0;
  bool compare_and_swap = false;  // Else fetch and add.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
};
/// Store 8 bytes at once at 8 aligned bytes at `address` under `key`, then call `on_atomic_result`.
struct ExecuteAtomicWrite {
  MemoryKey key{};
  std::uint64_t address = 0;
  std::uint64_t value = 0;  // As the program's memory has it: not in network byte order.
};
/// All bytes that were placed before must have come as far as `placement` says, then
/// `on_atomic_result` is called.
struct ExecuteFlush {
  std::uint8_t placement = 0;  // Bits of wire::Feth::Placement.
};
/// The peer ends the binding of the window with this key, with the last packet of a SEND. Where the
/// key has gone meanwhile: `on_region_error`.
struct InvalidateKey {
  MemoryKey key{};
};
/// The receive request has ended: an entry of the completion queue.
struct CompleteReceive {
  std::uint64_t ticket = 0;
  Status status = Status::success;
  std::uint64_t byte_count = 0;
  bool is_write = false;  // RDMA WRITE with immediate: no payload placed by the receive itself.
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  bool has_invalidated_key = false;
  MemoryKey invalidated_key{};
  bool solicited = false;
};
/// The first packet of a connection has come while the queue pair is in RTR (IBV_EVENT_COMM_EST).
struct Established {};
/// The queue pair goes to the error state. `event` tells which asynchronous event goes with it.
struct ResponderFailed {
  enum class Event : std::uint8_t { none, request_error, access_error, fatal };
  Event event = Event::none;
};

using ResponderEffect =
    std::variant<PlaceReceive, PlaceWrite, ExecuteAtomic, ExecuteAtomicWrite, ExecuteFlush,
                 InvalidateKey, CompleteReceive, Established, ResponderFailed>;
using ResponderEffects = InplaceVector<ResponderEffect, 8>;

}  // namespace verbatim::transport
