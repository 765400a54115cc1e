#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "ulp/engine/slice.h"

/// The header of RPC-over-RDMA version 1 (RFC 8166, section 4), in XDR: words of 32 bits,
/// big-endian. Behind it stands the RPC message, without a record mark.
///
///     xid | version | credits | procedure | read list | write list | reply chunk | RPC message
///
///     read list     (1, position, segment)..., 0
///     write list    (1, count, segment...)..., 0
///     reply chunk   0, or 1, count, segment...
///     segment       handle, length, offset (two words)
namespace verbatim::ulp::rpcrdma {

enum class Procedure : std::uint32_t { msg = 0, nomsg = 1, msgp = 2, done = 3, error = 4 };
enum class ErrorCode : std::uint32_t { version = 1, chunk = 2 };

struct ReadSegment {
  std::uint32_t position = 0;
  RemoteRange range;
  friend bool operator==(const ReadSegment&, const ReadSegment&) = default;
};

/// A header whose lists are longer is refused with ERR_CHUNK. Linux sends 16 segments at most.
inline constexpr std::size_t kSegmentsMax = 28;
inline constexpr std::size_t kWriteChunksMax = 8;
using Segments = InplaceVector<RemoteRange, kSegmentsMax>;

struct Header {
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::size_t kLeastBytes = 28;   // Of RDMA_MSG, with empty lists.
  static constexpr std::size_t kPrefixBytes = 16;  // What all procedures begin with.

  std::uint32_t xid = 0;
  std::uint32_t credits = 0;
  Procedure procedure{};
  InplaceVector<ReadSegment, kSegmentsMax> reads;
  Segments writes;                                            // Of all write chunks.
  InplaceVector<std::uint32_t, kWriteChunksMax> write_sizes;  // Segments of each.
  std::optional<Segments> reply;
  ErrorCode error{};  // Of `Procedure::error`.

  /// As a new one, without filling the lists with zeroes.
  void clear() {
    xid = credits = 0;
    procedure = {};
    reads.clear(), writes.clear(), write_sizes.clear(), reply.reset();
    error = {};
  }
  friend bool operator==(const Header&, const Header&) = default;
};

enum class HeaderFault : std::uint8_t {
  too_short,  // No answer is possible.
  version,    // ERR_VERS.
  chunk,      // ERR_CHUNK: the lists or the procedure.
};

/// Fills `header`, and returns its length. After a fault of `version` or `chunk` the xid is right.
std::expected<std::size_t, HeaderFault> decode(ByteSpan message, Header& header);
/// Returns the length. `out` has room for `encoded_bytes`.
std::size_t encode(const Header& header, MutableByteSpan out);
std::size_t encoded_bytes(const Header& header);

}  // namespace verbatim::ulp::rpcrdma
