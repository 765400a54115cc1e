#include "adapter/direct/imports.h"

#include <cerrno>

#include <fmt/format.h>

#include "adapter/direct/execute.h"
#include "adapter/direct/xrc_queue_owners.h"

namespace verbatim::adapter {
namespace {

/// Sends a request to the exporter; returns nothing if it has no such object.
std::optional<std::uint64_t> ask(MappedTarget& exporter, const OwnerRequest& wanted) {
  const TargetLock target_lock(exporter.target());
  return ask_owner(exporter, wanted);
}

}  // namespace

/// Requires exporters_lock_; waits for the agent.
Result<std::shared_ptr<MappedTarget>> Imports::exporter_of(Qpn first_qpn) {
  // A program's first number is never that of a queue pair.
  const Qpn own = first_qpn_;
  std::shared_ptr<MappedTarget>& known = exporters_[first_qpn.value()];
  const bool serves = known && !known->peer().is_gone() && known->target().qpn == own.value();
  if (serves) return known;
  known = nullptr;
  auto peer = peers_.find_peer(own_address_, first_qpn);
  if (peer == nullptr || peer->is_own()) {
    return refuse(ESRCH, "the program that the object belongs to has ended, or is of another user");
  }
  const auto proxy = allocate_proxy(*peer, own);
  if (!proxy) {
    return refuse(EAGAIN,
                  fmt::format("the object's program serves {} others already", kProxyTargetsMax));
  }
  known = std::make_shared<MappedTarget>(std::move(peer), *proxy);
  return known;
}

Result<PdNumber> Imports::import_pd(Qpn first_qpn, PdNumber there) {
  const std::lock_guard waiting(exporters_lock_);
  auto exporter = exporter_of(first_qpn);
  if (!exporter) return std::unexpected(exporter.error());
  if (!ask(**exporter, {.kind = OwnerRequest::find_domain, .key = raw(there)})) {
    return refuse(ENOENT, fmt::format("there is no protection domain {}", raw(there)));
  }
  return regions_.import_pd({.exporter = *exporter, .number = there});
}

Result<region::Region> Imports::reserve(ImportedRegion imported) {
  {
    const TargetLock target_lock(imported.target->target());
    const auto entry =
        imported.target->peer().regions().find_region_locked(imported.key, imported.pd);
    if (!entry) {
      return refuse(ENOENT,
                    fmt::format("the protection domain has no region {:#010x}", raw(imported.key)));
    }
    imported.region = **entry;
  }
  region::Region own = imported.region;
  own.backing = {};
  if ((own.access & region::kNull) != 0) return own;
  own.access = (own.access & ~region::kOnDemand) | region::kImported;
  const auto first = ImportedMemory::of_process().add(std::move(imported));
  if (!first) return std::unexpected(first.error());
  own.address = *first;
  return own;
}

Result<region::Region> Imports::import_memory(PdNumber pd, MemoryKey key) {
  const auto origin = regions_.origin_of(pd);
  if (!origin) return std::unexpected(origin.error());
  {
    const std::lock_guard guard(lock_);
    if (const auto known = imports_.find(key); known != imports_.end()) {
      const auto region = regions_.table().find_region(key);
      if (region && region->pd == pd && ++known->second > 0) return *region;
    }
  }
  ImportedRegion imported{
      .target = origin->exporter, .proxy = first_qpn_, .key = key, .pd = origin->number};
  auto own = reserve(std::move(imported));
  if (!own) return own;
  own->pd = pd;
  const auto entered = regions_.enter_imported(*own);
  auto done =
      entered ? regions_.table().add_alias(key, *entered) : std::unexpected(entered.error());
  if (done) {
    const std::lock_guard guard(lock_);
    imports_[key] = 1;
    return own;
  }
  if (entered) (void)regions_.deregister_memory(*entered);
  ImportedMemory::of_process().remove(own->address);
  return std::unexpected(done.error());
}

void Imports::unimport_memory(MemoryKey alias) {
  {
    const std::lock_guard guard(lock_);
    const auto known = imports_.find(alias);
    if (known == imports_.end() || --known->second > 0) return;
    imports_.erase(known);
  }
  const MemoryKey key = regions_.table().key_behind(alias);
  const auto region = regions_.table().find_region(key);
  regions_.table().remove_alias(alias);
  if (!region || !regions_.deregister_memory(key)) return;
  ImportedMemory::of_process().remove(region->address);
}

Result<MutableByteSpan> Imports::import_device_memory(Qpn first_qpn, std::uint32_t handle) {
  const std::lock_guard waiting(exporters_lock_);
  auto exporter = exporter_of(first_qpn);
  if (!exporter) return std::unexpected(exporter.error());
  const auto key = ask(**exporter, {.kind = OwnerRequest::export_device_memory, .key = handle});
  if (!key) return refuse(ENOENT, fmt::format("there is no device memory {}", handle));
  auto own = reserve({.target = *exporter,
                      .proxy = first_qpn_,
                      .key = MemoryKey{static_cast<std::uint32_t>(*key)},
                      .pd = kDeviceMemoryPd});
  if (!own) return std::unexpected(own.error());
  return MutableByteSpan(reinterpret_cast<std::byte*>(own->address), own->length);  // NOLINT
}

/// Called by the exporter's background thread, outside of passes: regions over its device memory
/// are created at their import.
void Imports::answer_importer(OwnerRequest& wanted) {
  std::optional<std::uint64_t> answer;
  if (wanted.kind == OwnerRequest::find_domain && regions_.has_pd(PdNumber{wanted.key})) answer = 0;
  if (wanted.kind == OwnerRequest::export_device_memory) {
    const auto bytes = device_memory_.find(wanted.key);
    const std::lock_guard guard(lock_);
    MemoryKey& shown = shown_device_memory_[wanted.key];
    if (bytes && raw(shown) == 0) {
      const auto key = regions_.table().add(
          {.address = reinterpret_cast<std::uint64_t>(bytes->data()),
           .length = bytes->size(),
           .access = region::kLocalWrite | (region::kRemoteRights & ~region::kFlushPersistent),
           .pd = kDeviceMemoryPd});
      if (key) shown = *key;
    }
    if (raw(shown) != 0) answer = raw(shown);
  }
  wanted.original = answer.value_or(0);
  wanted.state.store(answer ? OwnerRequest::done : OwnerRequest::refused,
                     std::memory_order_release);
}

Result<void> Imports::free_device_memory(std::uint32_t handle) {
  MemoryKey shown{};
  {
    const std::lock_guard guard(lock_);
    if (const auto found = shown_device_memory_.find(handle); found != shown_device_memory_.end()) {
      shown = found->second;
    }
  }
  if (auto busy = device_memory_.check_unused(handle); !busy) return busy;
  if (raw(shown) != 0) {
    (void)regions_.table().remove(shown);
    const std::lock_guard guard(lock_);
    shown_device_memory_.erase(handle);
  }
  return device_memory_.free(handle);
}

}  // namespace verbatim::adapter
