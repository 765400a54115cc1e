#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ulp/lnet/wire/nid.h"

/// The header of LNet's messages, always little-endian, whichever driver carries them.
namespace verbatim::ulp::lnet {

enum class Operation : std::uint32_t { ack = 0, put = 1, get = 2, reply = 3, hello = 4 };
inline constexpr std::uint32_t kPid = 12345;

/// Names memory of whoever has sent the message: its answer brings it back.
struct Handle {
  std::uint64_t interface = ~std::uint64_t{0};
  std::uint64_t object = ~std::uint64_t{0};
  bool is_none() const { return *this == Handle{}; }
  friend bool operator==(const Handle&, const Handle&) = default;
};

/// 72 bytes. What the operation does not have is zero.
///
///     byte 0-7           8-15     16-19   20-23   24-27       28-31     32-71
///         +-------------+--------+-------+-------+-----------+---------+------------------------+
///         | destination | source | pid   | pid   | operation | payload | of the operation       |
///         +-------------+--------+-------+-------+-----------+---------+------------------------+
///     put     32 handle of the ACK  48 match bits  56 data  64 portal  68 offset
///     get     32 handle of the REPLY  48 match bits  56 portal  60 offset  64 bytes wanted
///     reply   32 handle             ack   32 handle  48 match bits  56 bytes
struct LnetHeader {
  static constexpr std::size_t kSize = 72;
  Nid destination, source;
  std::uint32_t destination_pid = kPid, source_pid = kPid;
  Operation operation = Operation::put;
  std::uint32_t payload_bytes = 0;
  Handle handle;
  std::uint64_t match_bits = 0;  // All but reply.
  std::uint64_t data = 0;        // put
  std::uint32_t portal = 0, offset = 0;
  std::uint32_t bytes = 0;  // get: that the REPLY may have; ack: that were taken.
  friend bool operator==(const LnetHeader&, const LnetHeader&) = default;
};

LnetHeader decode_header(std::span<const std::byte, LnetHeader::kSize> bytes);
void encode(const LnetHeader& header, std::span<std::byte, LnetHeader::kSize> out);

}  // namespace verbatim::ulp::lnet
