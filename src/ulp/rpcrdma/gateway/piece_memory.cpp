#include "ulp/rpcrdma/gateway/piece_memory.h"

#include <utility>

namespace verbatim::ulp::rpcrdma {
namespace {

constexpr std::uint32_t kSmallPieces = 512, kMessages = 28;

}  // namespace

Result<void> PieceMemory::open(const rdma::Device& device, int rights) {
  std::vector<Slice> small, large;
  std::vector<PiecePool::Keys> keys;
  for (std::uint32_t i = 0; i <= kMessages; ++i) {
    const bool is_small = i == 0;
    auto made = rdma::BufferPool::create(device, is_small ? kSmallPieces : kPiecesMax,
                                         is_small ? kSmallPiece : kLargePiece, rights);
    if (!made) return std::unexpected(made.error());
    std::vector<Slice> pieces(made->count());
    made->take(pieces);
    keys.push_back({pieces.front().local_key, made->region().remote_key()});
    std::vector<Slice>& all = is_small ? small : large;
    all.insert(all.end(), pieces.begin(), pieces.end());
    regions_.push_back(std::move(*made));
  }
  pool_.emplace(small, large, std::move(keys));
  return {};
}

}  // namespace verbatim::ulp::rpcrdma
