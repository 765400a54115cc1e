#include "adapter/borrowed_memory.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adapter/execute.h"

namespace verbatim::adapter {
namespace {

std::size_t reserved_bytes(const region::Region& region) {
  return std::max<std::uint64_t>(region.length, 1);
}

/// The region that is lent, while its guest is locked; null where it is not lent any more.
const region::Region* visit(const Loan& loan, std::uint64_t iova, std::uint64_t length,
                            std::uint32_t right) {
  const bool is_lent =
      !loan.place->peer().is_gone() && loan.place->target().qpn == loan.guest.value();
  if (!is_lent) return nullptr;
  region::KeyCache unused;
  const auto region =
      loan.place->peer().regions().visit(loan.key, iova, length, right, loan.pd, unused);
  // What the owner has taken from it since, nobody has.
  const bool is_there = region && ((*region)->access & loan.region.access) == loan.region.access;
  return is_there ? *region : nullptr;
}

}  // namespace

BorrowedMemory& BorrowedMemory::of_process() {
  static BorrowedMemory* const one = new BorrowedMemory;  // Used by threads while others exit.
  return *one;
}

Result<std::uint64_t> BorrowedMemory::add(Loan loan) {
  void* const at = mmap(nullptr, reserved_bytes(loan.region), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return refuse(ENOMEM, fmt::format("no room for {} bytes of another program's memory",
                                      loan.region.length));
  }
  const auto first = reinterpret_cast<std::uint64_t>(at);
  loan.process_id = getpid();
  const std::lock_guard guard(lock_);
  loans_.emplace(first, std::make_shared<const Loan>(std::move(loan)));
  return first;
}

void BorrowedMemory::remove(std::uint64_t first) {
  std::shared_ptr<const Loan> loan;
  {
    const std::lock_guard guard(lock_);
    const auto found = loans_.find(first);
    if (found == loans_.end()) return;
    loan = std::move(found->second);
    loans_.erase(found);
  }
  munmap(reinterpret_cast<void*>(first), reserved_bytes(loan->region));  // NOLINT
}

/// `iova` is then where the byte is in the owner's region.
std::shared_ptr<const Loan> BorrowedMemory::find(std::uint64_t address, std::uint64_t& iova) {
  const std::shared_lock guard(lock_);
  auto found = loans_.upper_bound(address);
  if (found == loans_.begin()) return nullptr;
  --found;
  if (found->second->process_id != getpid()) return nullptr;
  iova = found->second->region.iova + (address - found->first);
  return found->second;
}

bool BorrowedMemory::copy(std::uint64_t address, std::byte* here, std::uint64_t length,
                          bool to_owner) {
  std::uint64_t iova = 0;
  const auto loan = find(address, iova);
  if (loan == nullptr) return false;
  const TargetVisit visiting(loan->place->target());
  const auto right = to_owner ? region::kLocalWrite : region::kLocalRead;
  const region::Region* const region = visit(*loan, iova, length, right);
  return region != nullptr &&
         loan->place->copy_plain(*region, address_in(*region, iova), here, length, to_owner);
}

std::optional<std::uint64_t> BorrowedMemory::execute(std::uint64_t address, const Assist& wanted) {
  std::uint64_t iova = 0;
  const auto loan = find(address, iova);
  if (loan == nullptr) return std::nullopt;
  const TargetVisit visiting(loan->place->target());
  const region::Region* const region = visit(*loan, iova, 8, region::kLocalWrite);
  if (region == nullptr) return std::nullopt;
  loan->place->target().pd = loan->pd;
  return execute_at(*loan->place, *region, loan->key, iova, wanted);
}

}  // namespace verbatim::adapter
