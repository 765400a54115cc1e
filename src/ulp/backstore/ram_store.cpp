#include "ulp/backstore/ram_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/os/unique_fd.h"

namespace verbatim::ulp::backstore {

using storage::StoreStatus;

Result<std::unique_ptr<RamStore>> RamStore::create(const rdma::Device& device, std::uint64_t bytes,
                                                   std::uint32_t block_bytes) {
  if (block_bytes != 512 && block_bytes != 4096)
    return refuse(EINVAL, fmt::format("blocks of {} bytes: 512 and 4096 are there", block_bytes));
  if (bytes == 0 || bytes % block_bytes != 0)
    return refuse(EINVAL, fmt::format("{} bytes are no blocks of {}", bytes, block_bytes));
  const UniqueFd file(memfd_create("verbatim-ram-store", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return refuse_errno(fmt::format("memory of {} bytes", bytes));
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) return refuse_errno(fmt::format("memory of {} bytes", bytes));
  auto store = std::make_unique<RamStore>(std::span(static_cast<std::byte*>(memory), bytes),
                                          MemoryKey{}, block_bytes);
  store->is_mapped_ = true;
  auto region = device.register_memory(store->memory_, IBV_ACCESS_LOCAL_WRITE);
  if (!region) return std::unexpected(region.error());
  store->region_ = std::move(*region);
  store->local_key_ = store->region_->local_key();
  return store;
}

RamStore::~RamStore() {
  region_.reset();
  if (is_mapped_) munmap(memory_.data(), memory_.size());
}

void RamStore::borrow(const storage::Borrow& request, Answers& to) {
  if (!has(request.offset, request.bytes))
    return to.on_pages(request.tag, StoreStatus::out_of_range, {});
  Slice& loan = loans_.at(request.tag);
  loan = {memory_.data() + request.offset, request.bytes, local_key_};
  to.on_pages(request.tag, StoreStatus::done, {&loan, 1});
}

/// What was borrowed is there already.
void RamStore::put(const storage::Put& request, Answers& to) {
  const std::uint64_t bytes = bytes_of(request.from);
  if (!has(request.offset, bytes)) return to.on_stored(request.tag, StoreStatus::out_of_range);
  std::byte* at = memory_.data() + request.offset;
  for (const Slice& slice : request.from) {
    if (slice.data != at) std::memcpy(at, slice.data, slice.bytes);
    at += slice.bytes;
  }
  to.on_stored(request.tag, StoreStatus::done);
}

void RamStore::flush(const storage::Flush& request, Answers& to) {
  to.on_stored(request.tag, StoreStatus::done);
}

void RamStore::clear(const storage::Clear& request, Answers& to) {
  if (!has(request.offset, request.bytes))
    return to.on_stored(request.tag, StoreStatus::out_of_range);
  std::ranges::fill(memory_.subspan(request.offset, request.bytes), std::byte{});
  to.on_stored(request.tag, StoreStatus::done);
}

}  // namespace verbatim::ulp::backstore
