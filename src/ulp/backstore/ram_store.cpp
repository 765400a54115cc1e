#include "ulp/backstore/ram_store.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/log.h"

namespace verbatim::ulp::backstore {

using storage::StoreStatus;

namespace {

class DeviceRegistrar final : public Registrar {
 public:
  explicit DeviceRegistrar(const rdma::Device& device) : device_(device) {}
  Result<MemoryKey> add(std::span<std::byte> memory) override {
    auto region = device_.register_memory(memory, IBV_ACCESS_LOCAL_WRITE);
    if (!region) return std::unexpected(region.error());
    const MemoryKey key = region->local_key();
    regions_.emplace(key, std::move(*region));
    return key;
  }
  void remove(MemoryKey key) override { regions_.erase(key); }

 private:
  const rdma::Device& device_;
  std::unordered_map<MemoryKey, rdma::Region> regions_;
};

bool is_zero(std::span<const std::byte> data) {
  return data[0] == std::byte{} && std::memcmp(data.data(), &data[1], data.size() - 1) == 0;
}

}  // namespace

Result<std::unique_ptr<RamStore>> RamStore::create(const rdma::Device& device, std::uint64_t bytes,
                                                   std::uint32_t block_bytes) {
  return create(std::make_unique<DeviceRegistrar>(device), bytes, block_bytes);
}

Result<std::unique_ptr<RamStore>> RamStore::create(std::unique_ptr<Registrar> registrar,
                                                   std::uint64_t bytes, std::uint32_t block_bytes) {
  if (block_bytes != 512 && block_bytes != 4096)
    return refuse(EINVAL, fmt::format("blocks of {} bytes: 512 and 4096 are there", block_bytes));
  if (bytes == 0 || bytes % block_bytes != 0)
    return refuse(EINVAL, fmt::format("{} bytes are no blocks of {}", bytes, block_bytes));
  std::unique_ptr<RamStore> store(new RamStore(std::move(registrar), bytes, block_bytes));
  if (auto opened = store->open(); !opened) return std::unexpected(opened.error());
  return store;
}

RamStore::RamStore(std::unique_ptr<Registrar> registrar, std::uint64_t bytes,
                   std::uint32_t block_bytes)
    : registrar_(std::move(registrar)),
      block_bytes_(block_bytes),
      memory_(static_cast<std::byte*>(nullptr), bytes) {
  const std::uint64_t least = std::max(kExtentBytesMin, (bytes + kExtentsMax - 1) / kExtentsMax);
  extent_shift_ = static_cast<std::uint32_t>(std::countr_zero(std::bit_ceil(least)));
  extents_.resize((bytes + extent_bytes() - 1) >> extent_shift_);
}

/// Aligned as large pages are, which the kernel gives to extents if it may.
Result<void> RamStore::open() {
  const std::size_t bytes = memory_.size();
  const std::size_t all = bytes + kZeroBytes + 2 * kExtentBytesMin;
  void* const mapped = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return refuse_errno(fmt::format("memory of {} bytes", bytes));
  mapped_ = {static_cast<std::byte*>(mapped), all};
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  zeroes_ = mapped_.subspan(kExtentBytesMin - begin % kExtentBytesMin).first(kZeroBytes);
  memory_ = {zeroes_.data() + kExtentBytesMin, bytes};
  madvise(memory_.data(), bytes, MADV_HUGEPAGE);
  const auto key = registrar_->add(zeroes_);
  if (!key) return std::unexpected(key.error());
  zero_key_ = *key;
  return {};
}

RamStore::~RamStore() {
  if (mapped_.empty()) return;
  for (const Extent& extent : extents_) {
    if (extent.key) registrar_->remove(*extent.key);
  }
  registrar_->remove(zero_key_);
  munmap(mapped_.data(), mapped_.size());
}

std::span<std::byte> RamStore::memory_of(std::size_t extent) const {
  const std::uint64_t begin = std::uint64_t{extent} << extent_shift_;
  return memory_.subspan(begin, std::min(extent_bytes(), memory_.size() - begin));
}

/// Gives pages to all extents of the range. Returns false if there are none left.
bool RamStore::make(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const std::size_t last = (offset + bytes - 1) >> extent_shift_;
  for (std::size_t i = offset >> extent_shift_; i <= last; ++i) {
    if (extents_[i].key) continue;
    const auto key = registrar_->add(memory_of(i));
    if (!key) {
      log(LogLevel::warn, "a disk in memory: {}", key.error().text);
      return false;
    }
    extents_[i].key = *key;
    ++written_;
  }
  return true;
}

void RamStore::lend(std::uint64_t offset, std::uint32_t bytes, std::vector<Slice>& loan) {
  while (bytes > 0) {
    const auto left = extent_bytes() - (offset & (extent_bytes() - 1));
    auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, left));
    Extent& extent = extent_at(offset);
    if (extent.key) {
      ++extent.lent;
      loan.push_back({memory_.data() + offset, part, *extent.key});
    } else {
      part = std::min(part, kZeroBytes);
      loan.push_back({zeroes_.data(), part, zero_key_});
    }
    offset += part;
    bytes -= part;
  }
}

void RamStore::borrow(const storage::Borrow& request, Answers& to) {
  if (!has(request.offset, request.bytes))
    return to.on_pages(request.tag, StoreStatus::out_of_range, {});
  if (request.access == storage::Access::write && !make(request.offset, request.bytes))
    return to.on_pages(request.tag, StoreStatus::no_space, {});
  std::vector<Slice>& loan = loans_.at(request.tag);
  lend(request.offset, request.bytes, loan);
  to.on_pages(request.tag, StoreStatus::done, loan);
}

void RamStore::give_back(Tag tag) {
  std::vector<Slice>& loan = loans_.at(tag);
  for (const Slice& slice : loan) {
    if (slice.data != zeroes_.data())
      --extent_at(static_cast<std::uint64_t>(slice.data - memory_.data())).lent;
  }
  loan.clear();
}

/// What was borrowed is there already.
void RamStore::put(const storage::Put& request, Answers& to) {
  const std::uint64_t bytes = bytes_of(request.from);
  StoreStatus status = StoreStatus::done;
  if (!has(request.offset, bytes))
    status = StoreStatus::out_of_range;
  else if (!make(request.offset, bytes))
    status = StoreStatus::no_space;
  if (status == StoreStatus::done) {
    std::byte* at = memory_.data() + request.offset;
    for (const Slice& slice : request.from) {
      if (slice.data != at) std::memcpy(at, slice.data, slice.bytes);
      at += slice.bytes;
    }
  }
  give_back(request.tag);
  to.on_stored(request.tag, status);
}

void RamStore::flush(const storage::Flush& request, Answers& to) {
  to.on_stored(request.tag, StoreStatus::done);
}

void RamStore::clear(const storage::Clear& request, Answers& to) {
  if (!has(request.offset, request.bytes))
    return to.on_stored(request.tag, StoreStatus::out_of_range);
  const std::uint64_t end = request.offset + request.bytes;
  for (std::uint64_t at = request.offset; at < end;) {
    const std::uint64_t next = std::min(end, (at | (extent_bytes() - 1)) + 1);
    clear_part(at, next - at);
    at = next;
  }
  to.on_stored(request.tag, StoreStatus::done);
}

/// Of one extent. If nothing else is left in it, its pages are the kernel's again. What is cleared
/// piece by piece is looked at with its last one.
void RamStore::clear_part(std::uint64_t offset, std::uint64_t bytes) {
  Extent& extent = extent_at(offset);
  if (!extent.key) return;
  const auto part = memory_.subspan(offset, bytes), whole = memory_of(offset >> extent_shift_);
  const bool is_whole = bytes == whole.size();
  const bool is_last = &part.back() == &whole.back();
  if (extent.lent > 0 || !is_whole) std::ranges::fill(part, std::byte{});
  if (extent.lent > 0 || !is_last || (!is_whole && !is_zero(whole))) return;
  registrar_->remove(*std::exchange(extent.key, std::nullopt));
  --written_;
  madvise(whole.data(), whole.size(), MADV_DONTNEED);
}

}  // namespace verbatim::ulp::backstore
