#pragma once

#include <optional>
#include <vector>

#include "ulp/rdma/buffer_pool.h"
#include "ulp/rpcrdma/pieces.h"

namespace verbatim::ulp::rpcrdma {

/// The registered memory of a pool of pieces: 32 MiB of large ones, 2 MiB of small ones. A region
/// has as much as the longest message: on the direct path a region moves to where peers copy into
/// it themselves, when they have used it so much that the move pays.
class PieceMemory {
 public:
  /// `rights`: IBV_ACCESS_*. The device outlives it.
  Result<void> open(const rdma::Device& device, int rights);
  PiecePool& pool() { return *pool_; }

 private:
  std::vector<rdma::BufferPool> regions_;
  std::optional<PiecePool> pool_;
};

}  // namespace verbatim::ulp::rpcrdma
