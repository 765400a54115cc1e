#include "ulp/rpcrdma/pieces.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace verbatim::ulp::rpcrdma {

PiecePool::PiecePool(std::span<const Slice> small, std::span<const Slice> large,
                     std::vector<Keys> regions)
    : small_(small.begin(), small.end()),
      large_(large.begin(), large.end()),
      regions_(std::move(regions)) {}

RemoteRange PiecePool::range_of(const Slice& part) const {
  const auto keys = std::ranges::find(regions_, part.local_key, &Keys::local);
  VERBATIM_ASSERT(keys != regions_.end());
  return {reinterpret_cast<std::uintptr_t>(part.data), part.bytes, keys->remote};
}

bool PiecePool::take(std::uint32_t bytes, Lent& lent) {
  VERBATIM_ASSERT(bytes <= kMessageMax && lent.empty());
  if (bytes == 0) return true;
  lent.is_small = bytes <= kSmallPiece && !small_.empty();
  const std::uint32_t size = lent.is_small ? kSmallPiece : kLargePiece;
  std::vector<Slice>& from = lent.is_small ? small_ : large_;
  const std::size_t count = (bytes + size - 1) / size;
  if (from.size() < count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    lent.slices.push(from.back());
    from.pop_back();
  }
  lent.slices[count - 1].bytes = bytes - static_cast<std::uint32_t>(count - 1) * size;
  return true;
}

void PiecePool::give_back(Lent& lent) {
  for (Slice slice : lent.slices) {
    slice.bytes = lent.is_small ? kSmallPiece : kLargePiece;
    (lent.is_small ? small_ : large_).push_back(slice);
  }
  lent.slices.clear();
}

}  // namespace verbatim::ulp::rpcrdma
