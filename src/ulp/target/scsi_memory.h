#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ulp/rdma/buffer_pool.h"
#include "ulp/scsi/logical_unit.h"

namespace verbatim::ulp::target {

/// Registered pieces for parameters of SCSI commands: rarely used, so those of idle sessions take
/// no memory if the adapter lets them. Ends before the device.
struct ScsiMemory {
  Result<void> take(const rdma::Device& device, std::uint32_t count) {
    const int rights =
        IBV_ACCESS_LOCAL_WRITE | (device.limits().has_on_demand ? IBV_ACCESS_ON_DEMAND : 0);
    auto made = rdma::BufferPool::create(device, count, scsi::LogicalUnit::kMemoryBytes, rights);
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
