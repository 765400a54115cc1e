#include "ulp/backstore/null_store.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::ulp::backstore {

using storage::StoreStatus;

Result<std::unique_ptr<NullStore>> NullStore::create(const rdma::Device& device,
                                                     std::uint64_t bytes,
                                                     std::uint32_t block_bytes) {
  if (bytes == 0 || bytes % block_bytes != 0)
    return refuse(EINVAL, fmt::format("{} bytes are no blocks of {}", bytes, block_bytes));
  auto pool = rdma::BufferPool::create(device, 2, kPieceBytes, IBV_ACCESS_LOCAL_WRITE);
  if (!pool) return std::unexpected(pool.error());
  return std::make_unique<NullStore>(std::move(*pool), bytes, block_bytes);
}

void NullStore::borrow(const storage::Borrow& request, Answers& to) {
  if (!has(request.offset, request.bytes) || request.bytes > kPieceBytes * kPiecesMax)
    return to.on_pages(request.tag, StoreStatus::out_of_range, {});
  const Slice piece = pool_.at(request.access == storage::Access::read ? 0 : 1);
  std::vector<Slice>& loan = loans_.at(request.tag);
  loan.clear();
  for (std::uint32_t at = 0; at < request.bytes; at += kPieceBytes) {
    loan.push_back(piece);
    loan.back().bytes = std::min(kPieceBytes, request.bytes - at);
  }
  to.on_pages(request.tag, StoreStatus::done, loan);
}

void NullStore::put(const storage::Put& request, Answers& to) {
  const bool fits = has(request.offset, bytes_of(request.from));
  to.on_stored(request.tag, fits ? StoreStatus::done : StoreStatus::out_of_range);
}

void NullStore::clear(const storage::Clear& request, Answers& to) {
  const bool fits = has(request.offset, request.bytes);
  to.on_stored(request.tag, fits ? StoreStatus::done : StoreStatus::out_of_range);
}

}  // namespace verbatim::ulp::backstore
