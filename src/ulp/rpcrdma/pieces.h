#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/inplace_vector.h"
#include "ulp/engine/slice.h"

/// Registered memory in which messages lie, lent in pieces.
namespace verbatim::ulp::rpcrdma {

inline constexpr std::uint32_t kSmallPiece = 4096, kLargePiece = 64 << 10;
inline constexpr std::size_t kPiecesMax = 18;
/// The longest RPC message: 1 MiB of data, and what stands around it.
inline constexpr std::uint32_t kMessageMax = kLargePiece * kPiecesMax;

/// Memory of one message: a small piece, or large ones. The last one is cut to the message's
/// length.
struct Lent {
  InplaceVector<Slice, kPiecesMax> slices;
  bool is_small = false;
  std::uint32_t bytes() const { return static_cast<std::uint32_t>(bytes_of(span())); }
  std::span<const Slice> span() const { return {slices.begin(), slices.size()}; }
  bool empty() const { return slices.empty(); }
};

/// Lends all pieces of a message or none: who waits for some holds none meanwhile.
class PiecePool {
 public:
  /// Of a region: which key peers use for what we use `local` for.
  struct Keys {
    MemoryKey local{}, remote{};
  };
  /// `small`: each of `kSmallPiece` bytes; `large`: of `kLargePiece`. `regions`: of them all.
  PiecePool(std::span<const Slice> small, std::span<const Slice> large, std::vector<Keys> regions);

  /// False: there is not enough at the moment. `bytes` is at most `kMessageMax`.
  bool take(std::uint32_t bytes, Lent& lent);
  void give_back(Lent& lent);
  std::size_t free_count() const { return small_.size() + large_.size(); }
  /// As peers name a part of a piece.
  RemoteRange range_of(const Slice& part) const;

 private:
  std::vector<Slice> small_, large_;  // The last one that came back is the next.
  const std::vector<Keys> regions_;
};

/// Calls `add(Slice)` for the part [`offset`, `offset` + `bytes`) of `from`, which has it.
template <typename Add>
void cut(std::span<const Slice> from, std::uint64_t offset, std::uint64_t bytes, Add add) {
  for (const Slice& slice : from) {
    if (bytes == 0) return;
    if (offset >= slice.bytes) {
      offset -= slice.bytes;
      continue;
    }
    const std::uint64_t left = slice.bytes - offset;
    const auto part = static_cast<std::uint32_t>(left < bytes ? left : bytes);
    add(Slice{slice.data + offset, part, slice.local_key});
    bytes -= part;
    offset = 0;
  }
}

}  // namespace verbatim::ulp::rpcrdma
