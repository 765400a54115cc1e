#pragma once

#include <utility>

#include "ulp/rdma/buffer_pool.h"
#include "ulp/rds/outgoing.h"

namespace verbatim::ulp::rds {

/// Registered memory of all messages that are sent. What programs send takes none of the last
/// `kReserve`, which are for acknowledgements, answers and maps.
class FragmentPool final : public Fragments {
 public:
  static constexpr std::uint32_t kFragment = Header::kSize + kFragmentBytes;
  static constexpr std::uint32_t kReserve = 256;

  static Result<FragmentPool> create(const rdma::Device& device, std::uint32_t count) {
    auto buffers =
        rdma::BufferPool::create(device, count + kReserve, kFragment, IBV_ACCESS_LOCAL_WRITE);
    if (!buffers) return std::unexpected(buffers.error());
    return FragmentPool(std::move(*buffers));
  }
  bool take(std::span<Slice> slices) override { return buffers_.take(slices); }
  void give_back(std::span<const Slice> slices) override { buffers_.give_back(slices); }
  bool has_room(std::uint32_t count) const { return buffers_.free_count() >= count + kReserve; }
  std::uint32_t used() const { return buffers_.count() - buffers_.free_count(); }

 private:
  explicit FragmentPool(rdma::BufferPool buffers) : buffers_(std::move(buffers)) {}
  rdma::BufferPool buffers_;
};

}  // namespace verbatim::ulp::rds
