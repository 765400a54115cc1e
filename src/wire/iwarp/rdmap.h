#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "wire/error.h"
#include "wire/iwarp/ddp.h"

/// RDMAP (RFC 5040; RFC 7306 for atomic operations and immediate data): the meaning of DDP
/// segments, and the messages whose payload RDMAP defines.
namespace verbatim::wire {

enum class RdmapOpcode : std::uint8_t {
  write = 0,
  read_request = 1,
  read_response = 2,
  send = 3,
  send_with_invalidate = 4,
  send_solicited = 5,
  send_solicited_with_invalidate = 6,
  terminate = 7,
  immediate = 8,
  immediate_solicited = 9,
  atomic_request = 10,
  atomic_response = 11,
};

/// The queues of untagged messages (RFC 5040, section 5.2; RFC 7306, section 9).
inline constexpr std::uint32_t kRdmapSendQueue = 0;
inline constexpr std::uint32_t kRdmapRequestQueue = 1;
inline constexpr std::uint32_t kRdmapTerminateQueue = 2;
inline constexpr std::uint32_t kRdmapResponseQueue = 3;

/// Payload of an Immediate Data message (RFC 7306, section 6).
inline constexpr std::size_t kRdmapImmediateBytes = 8;

struct RdmapInfo {
  bool known = false;
  bool tagged = false;  // If not, the message goes to `queue`.
  std::uint32_t queue = 0;
  bool solicited = false;
  bool invalidate = false;  // The upper word is the STag to invalidate.
};

/// For any number; `known` is false if there is no such opcode.
const RdmapInfo& info(RdmapOpcode opcode);

/// Sets the fields that DDP leaves to RDMAP, and those that follow from the opcode: tagged or not,
/// and the queue.
void set_rdmap(Ddp& header, RdmapOpcode opcode, std::uint32_t invalidated_stag = 0);
/// Checks RDMAP's version, and that the DDP header fits the opcode.
std::expected<RdmapOpcode, WireError> rdmap_opcode(const Ddp& header);

/// Payload of an RDMA Read Request (RFC 5040, section 4.4).
///
///     byte   0-3         4-11          12-15    16-19         20-27
///          +-----------+-------------+--------+-------------+---------------+
///          | sink STag | sink offset | length | source STag | source offset |
///          +-----------+-------------+--------+-------------+---------------+
struct RdmapReadRequest {
  static constexpr std::size_t kSize = 28;
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_offset = 0;
  std::uint32_t length = 0;  // Bytes.
  std::uint32_t source_stag = 0;
  std::uint64_t source_offset = 0;
  friend bool operator==(const RdmapReadRequest&, const RdmapReadRequest&) = default;
};
RdmapReadRequest decode_read_request(std::span<const std::byte, RdmapReadRequest::kSize> bytes);
void encode(const RdmapReadRequest& request, std::span<std::byte, RdmapReadRequest::kSize> out);

/// Payload of an Atomic Request (RFC 7306, section 5.2.1). A mask selects the bits of its value.
///
///     byte   0-3            4-7          8-11    12-19    20-27    28-35    36-43     44-51
///          +--------------+------------+-------+--------+--------+--------+---------+---------+
///          | 28 reserved, | request    | STag  | offset | add or | add or | compare | compare |
///          | 4 operation  | identifier |       |        | swap   | mask   |         | mask    |
///          +--------------+------------+-------+--------+--------+--------+---------+---------+
struct RdmapAtomicRequest {
  static constexpr std::size_t kSize = 52;
  enum class Operation : std::uint8_t { fetch_and_add = 0, swap = 1, compare_and_swap = 2 };
  Operation operation{};
  std::uint32_t identifier = 0;
  std::uint32_t stag = 0;
  std::uint64_t offset = 0;
  std::uint64_t add_or_swap = 0;
  std::uint64_t add_or_swap_mask = 0;
  std::uint64_t compare = 0;
  std::uint64_t compare_mask = 0;
  friend bool operator==(const RdmapAtomicRequest&, const RdmapAtomicRequest&) = default;
};
RdmapAtomicRequest decode_atomic_request(
    std::span<const std::byte, RdmapAtomicRequest::kSize> bytes);
void encode(const RdmapAtomicRequest& request, std::span<std::byte, RdmapAtomicRequest::kSize> out);

/// Payload of an Atomic Response (RFC 7306, section 5.2.2): the request's identifier, and the old
/// value.
struct RdmapAtomicResponse {
  static constexpr std::size_t kSize = 12;
  std::uint32_t identifier = 0;
  std::uint64_t original = 0;
  friend bool operator==(const RdmapAtomicResponse&, const RdmapAtomicResponse&) = default;
};
RdmapAtomicResponse decode_atomic_response(
    std::span<const std::byte, RdmapAtomicResponse::kSize> bytes);
void encode(const RdmapAtomicResponse& response,
            std::span<std::byte, RdmapAtomicResponse::kSize> out);

/// Start of a Terminate message's payload (RFC 5040, section 4.8): the layer and the error. The DDP
/// segment that caused it may follow: its length, its header and a Read Request's header.
///
///     byte   0 (4, 4)         1        2 (1, 1, 1, 5) and 3
///          +-------+--------+--------+----------------------+
///          | layer | error  | error  | M, D, R: what        |
///          |       | type   | code   | follows              |
///          +-------+--------+--------+----------------------+
struct RdmapTerminate {
  static constexpr std::size_t kSize = 4;
  static constexpr std::size_t kLengthBytes = 2;  // The size of the segment length field.
  enum class Layer : std::uint8_t { rdma = 0, ddp = 1, llp = 2 };
  Layer layer{};
  std::uint8_t type = 0;  // 4 bits.
  std::uint8_t code = 0;
  bool has_segment_length = false;
  bool has_ddp_header = false;
  bool has_rdmap_header = false;
  friend bool operator==(const RdmapTerminate&, const RdmapTerminate&) = default;
};
RdmapTerminate decode_terminate(std::span<const std::byte, RdmapTerminate::kSize> bytes);
void encode(const RdmapTerminate& terminate, std::span<std::byte, RdmapTerminate::kSize> out);

}  // namespace verbatim::wire
