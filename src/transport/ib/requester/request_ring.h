#pragma once

#include <bit>
#include <cstdint>
#include <memory>

#include "base/types.h"
#include "transport/work.h"

namespace verbatim::transport {

/// Number of a packet in the requester's stream, counted from the first packet of the connection: a
/// PSN that does not wrap. A READ takes one for each response packet (IBA 9.7.3).
using Sequence = std::uint64_t;
inline constexpr Sequence kNoSequence = ~Sequence{0};

/// A posted request, until it completes.
struct PostedRequest {
  Sequence first_sequence = 0;
  std::uint64_t first_position = 0;  // Window bytes of all earlier requests: see `SendWindow`.
  std::uint64_t remote_address = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t length = 0;     // Bytes.
  std::uint32_t packets = 0;    // PSNs: at least 1; local operations have 0.
  std::uint32_t immediate = 0;  // For a FLUSH: the size of the range in bytes.
  MemoryKey remote_key{};
  SrqNumber remote_srq{};
  Operation operation{};
  bool fence : 1 = false;
  bool solicited : 1 = false;
  wire::Feth flush{};

  Sequence end_sequence() const { return first_sequence + packets; }
  bool is_read() const { return operation == Operation::read; }
  bool is_atomic() const { return transport::is_atomic(operation); }
  bool is_local() const { return packets == 0; }
  bool awaits_response() const { return info(operation).awaits_response; }
};
static_assert(sizeof(PostedRequest) <= 64, "a request fits a cache line");

/// Requests by slot; their number is a power of two, allocated once.
class RequestRing {
 public:
  explicit RequestRing(std::uint32_t capacity)
      : mask_(std::bit_ceil(capacity) - 1),
        requests_(std::make_unique<PostedRequest[]>(mask_ + 1)) {}
  PostedRequest& operator[](Slot slot) { return requests_[slot & mask_]; }
  const PostedRequest& operator[](Slot slot) const { return requests_[slot & mask_]; }

 private:
  Slot mask_;
  std::unique_ptr<PostedRequest[]> requests_;
};

}  // namespace verbatim::transport
