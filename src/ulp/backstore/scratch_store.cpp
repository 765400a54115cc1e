#include "ulp/backstore/scratch_store.h"

#include <algorithm>

namespace verbatim::ulp::backstore {

using storage::StoreStatus;

Result<std::unique_ptr<ScratchStore>> ScratchStore::create(const rdma::Device& device,
                                                           std::uint32_t pages) {
  auto pool = rdma::BufferPool::create(device, pages, kPageBytes, IBV_ACCESS_LOCAL_WRITE);
  if (!pool) return std::unexpected(pool.error());
  return std::make_unique<ScratchStore>(std::move(*pool));
}

void ScratchStore::borrow(const storage::Borrow& request, Answers& to) {
  const std::uint64_t pages = (std::uint64_t{request.bytes} + kPageBytes - 1) / kPageBytes;
  if (pages == 0 || pages > pool_.count())
    return to.on_pages(request.tag, StoreStatus::out_of_range, {});
  if (!waiting_.empty() || !lend(request, to)) waiting_.push_back({request, &to});
}

bool ScratchStore::lend(const storage::Borrow& request, Answers& to) {
  std::vector<Slice>& loan = loans_.at(request.tag);
  loan.resize((request.bytes + kPageBytes - 1) / kPageBytes);
  if (!pool_.take(loan)) return false;
  loan.back().bytes = request.bytes - static_cast<std::uint32_t>(loan.size() - 1) * kPageBytes;
  to.on_pages(request.tag, StoreStatus::done, loan);
  return true;
}

void ScratchStore::give_back(Tag tag) {
  std::vector<Slice>& loan = loans_.at(tag);
  pool_.give_back(loan);
  loan.clear();
  while (!waiting_.empty() && lend(waiting_.front().request, *waiting_.front().to))
    waiting_.pop_front();
}

}  // namespace verbatim::ulp::backstore
