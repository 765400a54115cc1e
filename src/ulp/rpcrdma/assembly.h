#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/inplace_vector.h"
#include "ulp/engine/work.h"
#include "ulp/rpcrdma/pieces.h"
#include "ulp/rpcrdma/wire/header.h"

/// Whole RPC messages, put together of what came in a SEND and what chunks have moved.
namespace verbatim::ulp::rpcrdma {

/// Data of a chunk, which belongs at `position` of the whole message, followed by its padding.
struct Insert {
  std::uint32_t position = 0;
  std::uint32_t offset = 0;  // In the memory that has all chunks' data.
  std::uint32_t bytes = 0;
};
inline constexpr std::size_t kInsertsMax = 8;
using Inserts = InplaceVector<Insert, kInsertsMax>;

/// A message of a call: its read list is understood, and its parts fit together.
struct CallParts {
  bool is_long = false;  // The message itself is the first chunk.
  std::uint32_t message_bytes = 0;
  Inserts inserts;
};
/// None: ERR_CHUNK.
std::optional<CallParts> parts_of(const Header& header, std::uint32_t inline_bytes);

/// Of a record that still comes, parts of at least this are moved on.
inline constexpr std::uint32_t kPartBytes = 2 * kLargePiece;
inline constexpr std::size_t kPartsMax = kMessageMax / kPartBytes;
/// The slices that name parts of messages: they stay where they are until the message is gone.
inline constexpr std::size_t kCutsMax = 2 * kSegmentsMax + 4 * kPiecesMax + kPartsMax;
using Cuts = InplaceVector<Slice, kCutsMax>;
/// Adds [`offset`, `offset` + `bytes`) of `from`, and returns what names it.
std::span<const Slice> add_cut(Cuts& cuts, std::span<const Slice> from, std::uint32_t offset,
                               std::uint32_t bytes);

struct RecordParts {
  std::span<const Slice> message;  // Without the inserts.
  bool is_in_receive = false;      // It is copied, since the receive is posted again.
  Inserts inserts;
  std::span<const Slice> data;
};
std::uint32_t bytes_of(const RecordParts& parts);
/// Pushes the SENDs of one record. `mark` stays until they are carried out. Returns whether one of
/// them, the last, has the tag: whether `cuts` are named until it comes back.
bool push_record(const RecordParts& parts, Cuts& cuts, std::span<std::byte, 4> mark, Tag tag,
                 WorkList& out);

}  // namespace verbatim::ulp::rpcrdma
