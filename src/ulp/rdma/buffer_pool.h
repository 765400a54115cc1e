#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ulp/engine/slice.h"
#include "ulp/rdma/device.h"

namespace verbatim::ulp::rdma {

/// Buffers of one size in one region of anonymous memory, registered once. Uses: the receives of a
/// shared queue, headers too long to be sent inline, pages that stores lend where they cannot lend
/// their own. The device outlives it.
class BufferPool {
 public:
  /// `rights`: IBV_ACCESS_*.
  static Result<BufferPool> create(const Device& device, std::uint32_t count, std::uint32_t bytes,
                                   int rights);

  /// Takes `slices.size()` buffers or none: who waits for more than one holds none meanwhile.
  bool take(std::span<Slice> slices);
  void give_back(std::span<const Slice> slices);
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t count() const { return count_; }
  std::uint32_t buffer_bytes() const { return buffer_bytes_; }
  const Region& region() const { return region_; }

  Slice at(std::uint32_t index) const;
  std::uint32_t index_of(const Slice& slice) const;

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Unmap> memory_{nullptr, Unmap{0}};  // Outlives the region.
  Region region_;
  std::uint32_t count_ = 0;
  std::uint32_t buffer_bytes_ = 0;
  std::size_t stride_ = 0;
  std::vector<std::uint32_t> free_;
  std::vector<bool> is_lent_;
};

}  // namespace verbatim::ulp::rdma
