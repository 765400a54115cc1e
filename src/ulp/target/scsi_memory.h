#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/scsi/logical_unit.h"

namespace verbatim::ulp::target {

/// Registered pieces for parameters of SCSI commands. Ends before the device.
struct ScsiMemory {
  Result<void> take(const rdma::Device& device, std::uint32_t count) {
    auto made = rdma::BufferPool::create(device, count, scsi::LogicalUnit::kMemoryBytes,
                                         IBV_ACCESS_LOCAL_WRITE);
    if (!made) return std::unexpected(made.error());
    pool = std::move(*made);
    pieces.resize(count);
    pool->take(pieces);
    return {};
  }
  std::optional<rdma::BufferPool> pool;
  std::vector<Slice> pieces;
};

}  // namespace verbatim::ulp::target
