#include "adapter/direct/imported_memory.h"

#include <algorithm>
#include <cerrno>
#include <mutex>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "region/held_memory.h"

namespace verbatim::adapter {
namespace {

std::size_t reserved_bytes(const region::Region& region) {
  return std::max<std::uint64_t>(region.length, 1);
}

/// Looks up the exporter's region under the proxy target's lock; returns null if it is not there
/// any more.
const region::Region* find_locked(const ImportedRegion& imported, std::uint64_t iova,
                                  std::uint64_t length, std::uint32_t right) {
  const bool is_lent =
      !imported.target->peer().is_gone() && imported.target->target().qpn == imported.proxy.value();
  if (!is_lent) return nullptr;
  region::KeyCache unused;
  const auto region = imported.target->peer().regions().find_locked(imported.key, iova, length,
                                                                    right, imported.pd, unused);
  // Memory that the owner has deregistered meanwhile cannot be accessed.
  const bool is_there =
      region && ((*region)->access & imported.region.access) == imported.region.access;
  return is_there ? *region : nullptr;
}

}  // namespace

ImportedMemory& ImportedMemory::of_process() {
  static ImportedMemory* const one = [] {
    region::set_copy_imported(
        [](std::uint64_t address, std::byte* here, std::uint64_t length, bool to_owner) {
          return of_process().copy(address, here, length, to_owner);
        });
    return new ImportedMemory;  // Never destroyed: other threads may use it during exit.
  }();
  return *one;
}

Result<std::uint64_t> ImportedMemory::add(ImportedRegion imported) {
  void* const at = mmap(nullptr, reserved_bytes(imported.region), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return refuse(ENOMEM, fmt::format("no room for {} bytes of another program's memory",
                                      imported.region.length));
  }
  const auto first = reinterpret_cast<std::uint64_t>(at);
  imported.process_id = getpid();
  const std::lock_guard guard(lock_);
  regions_.emplace(first, std::make_shared<const ImportedRegion>(std::move(imported)));
  return first;
}

void ImportedMemory::remove(std::uint64_t first) {
  std::shared_ptr<const ImportedRegion> imported;
  {
    const std::lock_guard guard(lock_);
    const auto found = regions_.find(first);
    if (found == regions_.end()) return;
    imported = std::move(found->second);
    regions_.erase(found);
  }
  munmap(reinterpret_cast<void*>(first), reserved_bytes(imported->region));  // NOLINT
}

/// `iova` gets the byte's address in the owner's region.
std::shared_ptr<const ImportedRegion> ImportedMemory::find(std::uint64_t address,
                                                           std::uint64_t& iova) {
  const std::shared_lock guard(lock_);
  auto found = regions_.upper_bound(address);
  if (found == regions_.begin()) return nullptr;
  --found;
  if (found->second->process_id != getpid()) return nullptr;
  iova = found->second->region.iova + (address - found->first);
  return found->second;
}

bool ImportedMemory::copy(std::uint64_t address, std::byte* here, std::uint64_t length,
                          bool to_owner) {
  std::uint64_t iova = 0;
  const auto imported = find(address, iova);
  if (imported == nullptr) return false;
  const auto right = to_owner ? region::kLocalWrite : region::kLocalRead;
  TimeNs end_of_waits = 0;
  do {
    const TargetLock target_lock(imported->target->target());
    const region::Region* const region = find_locked(*imported, iova, length, right);
    if (region == nullptr) return false;
    const auto copied =
        imported->target->copy_plain(*region, address_in(*region, iova), here, length, to_owner);
    if (copied != MappedTarget::Copied::later) return copied == MappedTarget::Copied::all;
  } while (imported->target->wait_while_memory_moves(end_of_waits));
  return false;
}

std::optional<std::uint64_t> ImportedMemory::execute(std::uint64_t address,
                                                     const OwnerRequest& wanted, Execute at_owner) {
  std::uint64_t iova = 0;
  const auto imported = find(address, iova);
  if (imported == nullptr) return std::nullopt;
  const TargetLock target_lock(imported->target->target());
  const region::Region* const region = find_locked(*imported, iova, 8, region::kLocalWrite);
  if (region == nullptr) return std::nullopt;
  imported->target->target().pd = imported->pd;
  return at_owner(*imported->target, *region, imported->key, iova, wanted);
}

}  // namespace verbatim::adapter
