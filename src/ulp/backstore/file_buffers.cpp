#include "ulp/backstore/file_buffers.h"

namespace verbatim::ulp::backstore {

Result<std::unique_ptr<FileBuffers>> FileBuffers::create(const rdma::Device& device) {
  auto small = rdma::BufferPool::create(device, kSmall, kSmallBytes, IBV_ACCESS_LOCAL_WRITE);
  if (!small) return std::unexpected(small.error());
  auto large = rdma::BufferPool::create(device, kLarge, kLargeBytes, IBV_ACCESS_LOCAL_WRITE);
  if (!large) return std::unexpected(large.error());
  return std::make_unique<FileBuffers>(std::move(*small), std::move(*large), DiskQueue::create());
}

bool FileBuffers::take(std::uint32_t bytes, std::vector<Slice>& loan) {
  const std::uint32_t each = bytes <= kSmallBytes ? kSmallBytes : kLargeBytes;
  loan.resize((bytes + each - 1) / each);
  if (!(each == kSmallBytes ? small_ : large_).take(loan)) return loan.clear(), false;
  loan.back().bytes = bytes - static_cast<std::uint32_t>(loan.size() - 1) * each;
  return true;
}

void FileBuffers::give_back(std::vector<Slice>& loan) {
  const auto& memory = small_.region();
  const auto bytes = memory.bytes();
  for (const Slice& slice : loan) {
    const bool is_small = slice.data >= bytes.data() && slice.data < bytes.data() + bytes.size();
    (is_small ? small_ : large_).give_back({&slice, 1});
  }
  loan.clear();
}

}  // namespace verbatim::ulp::backstore
