#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "adapter/adapter.h"
#include "adapter/direct/execute.h"
#include "adapter/direct/imported_memory.h"
#include "adapter/direct/xrc_queue_owners.h"

/// Objects of another program of the node (`ibv_import_pd`, `ibv_import_mr`, `ibv_import_dm`): this
/// program takes a guest in the other's arena, as an XRC target does, under whose lock that one's
/// regions are visited. What the other ends, or its own end, ends what was imported.
namespace verbatim::adapter {
namespace {

/// What `wanted` asks of the exporter; nothing where it has no such object.
std::optional<std::uint64_t> ask(const MappedTarget& exporter, const OwnerRequest& wanted) {
  const TargetLock target_lock(exporter.target());
  return ask_owner(exporter, wanted);
}

}  // namespace

/// Under exporters_lock_: it waits for the agent.
Result<std::shared_ptr<MappedTarget>> Adapter::exporter_of(Qpn first_qpn) {
  // No queue pair has the first number of a program's.
  const Qpn own = membership_.first_qpn;
  std::shared_ptr<MappedTarget>& known = exporters_[first_qpn.value()];
  const bool serves = known && !known->peer().is_gone() && known->target().qpn == own.value();
  if (serves) return known;
  known = nullptr;
  auto peer = find_peer(node().gids[0].address, first_qpn);
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

Result<PdNumber> Adapter::import_pd(Qpn first_qpn, PdNumber there) {
  const std::lock_guard waiting(exporters_lock_);
  auto exporter = exporter_of(first_qpn);
  if (!exporter) return std::unexpected(exporter.error());
  if (!ask(**exporter, {.kind = OwnerRequest::find_domain, .key = raw(there)})) {
    return refuse(ENOENT, fmt::format("there is no protection domain {}", raw(there)));
  }
  const std::lock_guard guard(lock_);
  const auto known = std::ranges::find_if(pds_, [&](const auto& one) {
    return one.second.exporter == *exporter && one.second.there == there;
  });
  if (known == pds_.end()) return add_pd({.exporter = *exporter, .there = there, .imports = 1});
  ++known->second.imports;
  return known->first;
}

void Adapter::unimport_pd(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  if (found == pds_.end() || found->second.imports == 0) return;
  // One that something was made on stays for that.
  if (--found->second.imports == 0 && found->second.users == 0) pds_.erase(found);
}

bool Adapter::is_imported(PdNumber pd) {
  const std::lock_guard guard(lock_);
  const auto found = pds_.find(pd);
  return found != pds_.end() && found->second.exporter != nullptr;
}

Result<region::Region> Adapter::reserve_imported(ImportedRegion imported) {
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

Result<region::Region> Adapter::import_memory(PdNumber pd, MemoryKey key) {
  ImportedRegion imported{.proxy = membership_.first_qpn, .key = key};
  {
    const std::lock_guard guard(lock_);
    const auto found = pds_.find(pd);
    if (found == pds_.end()) return refuse(EINVAL, "no such protection domain");
    if (const auto known = imports_.find(key); known != imports_.end()) {
      const auto region = regions_->find_region(key);
      if (region && region->pd == pd && ++known->second > 0) return *region;
    }
    imported.target = found->second.exporter;
    imported.pd = found->second.there;
  }
  auto own = reserve_imported(std::move(imported));
  if (!own) return own;
  own->pd = pd;
  const auto entered = enter(*own, {});
  auto done = entered ? regions_->add_alias(key, *entered) : std::unexpected(entered.error());
  if (done) {
    const std::lock_guard guard(lock_);
    imports_[key] = 1;
    return own;
  }
  if (entered) (void)deregister_memory(*entered);
  ImportedMemory::of_process().remove(own->address);
  return std::unexpected(done.error());
}

void Adapter::unimport_memory(MemoryKey alias) {
  {
    const std::lock_guard guard(lock_);
    const auto known = imports_.find(alias);
    if (known == imports_.end() || --known->second > 0) return;
    imports_.erase(known);
  }
  const MemoryKey key = regions_->key_behind(alias);
  const auto region = regions_->find_region(key);
  regions_->remove_alias(alias);
  if (!region || !deregister_memory(key)) return;
  ImportedMemory::of_process().remove(region->address);
}

Result<MutableByteSpan> Adapter::import_device_memory(Qpn first_qpn, std::uint32_t handle) {
  const std::lock_guard waiting(exporters_lock_);
  auto exporter = exporter_of(first_qpn);
  if (!exporter) return std::unexpected(exporter.error());
  const auto key = ask(**exporter, {.kind = OwnerRequest::export_device_memory, .key = handle});
  if (!key) return refuse(ENOENT, fmt::format("there is no device memory {}", handle));
  auto own = reserve_imported({.target = *exporter,
                               .proxy = membership_.first_qpn,
                               .key = MemoryKey{static_cast<std::uint32_t>(*key)},
                               .pd = kDeviceMemoryPd});
  if (!own) return std::unexpected(own.error());
  return MutableByteSpan(reinterpret_cast<std::byte*>(own->address), own->length);  // NOLINT
}

/// By the exporter's background thread, in no turn: regions over its device memory are made when
/// somebody imports it.
void Adapter::answer_importer(OwnerRequest& wanted) {
  std::optional<std::uint64_t> answer;
  if (wanted.kind == OwnerRequest::find_domain && has_pd(PdNumber{wanted.key})) answer = 0;
  if (wanted.kind == OwnerRequest::export_device_memory) {
    const auto bytes = device_memory_.find(wanted.key);
    const std::lock_guard guard(lock_);
    MemoryKey& shown = shown_device_memory_[wanted.key];
    if (bytes && raw(shown) == 0) {
      const auto key = regions_->add(
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

Result<void> Adapter::free_device_memory(std::uint32_t handle) {
  MemoryKey shown{};
  {
    const std::lock_guard guard(lock_);
    if (const auto found = shown_device_memory_.find(handle); found != shown_device_memory_.end()) {
      shown = found->second;
    }
  }
  if (auto busy = device_memory_.check_unused(handle); !busy) return busy;
  if (raw(shown) != 0) {
    (void)regions_->remove(shown);
    const std::lock_guard guard(lock_);
    shown_device_memory_.erase(handle);
  }
  return device_memory_.free(handle);
}

}  // namespace verbatim::adapter
