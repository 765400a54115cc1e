#include "ulp/rdma/buffer_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/assert.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr std::size_t kAlignment = 64;  // A cache line.
constexpr std::size_t kPage = 4096;

constexpr std::size_t rounded_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

void BufferPool::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

Result<BufferPool> BufferPool::create(const Device& device, std::uint32_t count,
                                      std::uint32_t bytes, int rights) {
  VERBATIM_ASSERT(count > 0 && bytes > 0);
  BufferPool pool;
  pool.count_ = count;
  pool.buffer_bytes_ = bytes;
  pool.stride_ = rounded_up(bytes, kAlignment);
  const std::size_t all = rounded_up(pool.stride_ * count, kPage);
  void* const memory =
      mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return refuse_errno(fmt::format("mmap of {} bytes", all));
  pool.memory_ = {static_cast<std::byte*>(memory), Unmap{all}};
  auto region = device.register_memory({pool.memory_.get(), all}, rights);
  if (!region) return std::unexpected(region.error());
  pool.region_ = std::move(*region);
  pool.is_lent_.resize(count);
  pool.free_.reserve(count);
  for (std::uint32_t i = count; i-- > 0;) pool.free_.push_back(i);
  return pool;
}

bool BufferPool::take(std::span<Slice> slices) {
  if (slices.size() > free_.size()) return false;
  for (Slice& slice : slices) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    is_lent_[index] = true;
    slice = at(index);
  }
  return true;
}

void BufferPool::give_back(std::span<const Slice> slices) {
  for (const Slice& slice : slices) {
    const std::uint32_t index = index_of(slice);
    VERBATIM_ASSERT(is_lent_[index]);
    is_lent_[index] = false;
    free_.push_back(index);
  }
}

Slice BufferPool::at(std::uint32_t index) const {
  VERBATIM_ASSERT(index < count_);
  return region_.slice(index * stride_, buffer_bytes_);
}

std::uint32_t BufferPool::index_of(const Slice& slice) const {
  const auto offset = static_cast<std::size_t>(slice.data - memory_.get());
  VERBATIM_ASSERT(slice.data >= memory_.get() && offset / stride_ < count_);
  return static_cast<std::uint32_t>(offset / stride_);
}

}  // namespace verbatim::ulp::rdma
