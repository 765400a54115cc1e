#include <cerrno>
#include <limits>

#include <fmt/format.h>
#include <sys/mman.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Memory regions.
namespace verbatim::dropin {
namespace {

static_assert(int{region::kLocalWrite} == int{IBV_ACCESS_LOCAL_WRITE});
static_assert(int{region::kRemoteWrite} == int{IBV_ACCESS_REMOTE_WRITE});
static_assert(int{region::kRemoteRead} == int{IBV_ACCESS_REMOTE_READ});
static_assert(int{region::kRemoteAtomic} == int{IBV_ACCESS_REMOTE_ATOMIC});
static_assert(int{region::kMwBind} == int{IBV_ACCESS_MW_BIND});
static_assert(int{region::kZeroBased} == int{IBV_ACCESS_ZERO_BASED});

// Missing in older headers.
constexpr std::uint32_t kAccessFlushGlobal = 1 << 8;
constexpr std::uint32_t kAccessFlushPersistent = 1 << 9;
static_assert(int{region::kFlushGlobal} == int{kAccessFlushGlobal});

/// Returns the region with the changes that `flags` ask for.
Result<region::Region> changed(region::Region region, int flags, const ibv_pd* pd, void* address,
                               std::size_t length, int access) {
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    const auto granted = to_rights(static_cast<std::uint32_t>(access));
    if (!granted) return std::unexpected(granted.error());
    region.access = *granted;
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) region.pd = PdNumber{pd->handle};
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    region.address = reinterpret_cast<std::uint64_t>(address);
    region.length = length;
    region.iova = (region.access & region::kZeroBased) != 0 ? 0 : region.address;
  }
  return region;
}

Result<void> check_change(int flags, const ibv_pd* pd, const void* address, std::size_t length,
                          int access) {
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) {
    return refuse(EINVAL, fmt::format("flags {:#x}: at least one of {:#x}, and no other", flags,
                                      int{IBV_REREG_MR_FLAGS_SUPPORTED}));
  }
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (address == nullptr || length == 0)) {
    return refuse(EINVAL, "the new translation needs an address and a length");
  }
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr) {
    return refuse(EINVAL, "the new protection domain is a null pointer");
  }
  if (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) {
    return refuse(EINVAL, "access is given without IBV_REREG_MR_CHANGE_ACCESS");
  }
  return {};
}

}  // namespace

Result<std::uint32_t> to_rights(std::uint32_t access) {
  access &= ~std::uint32_t{IBV_ACCESS_OPTIONAL_RANGE} & ~std::uint32_t{IBV_ACCESS_HUGETLB};
  if ((access & kAccessFlushPersistent) != 0) {
    return refuse(EOPNOTSUPP,
                  "IBV_ACCESS_FLUSH_PERSISTENT: ordinary memory does not survive a loss of power");
  }
  constexpr std::uint32_t kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                   IBV_ACCESS_ON_DEMAND | kAccessFlushGlobal;
  if ((access & ~kKnown) != 0) {
    return refuse(EINVAL, fmt::format("access flags {:#x} are unknown", access & ~kKnown));
  }
  return access;
}

ibv_mr* register_memory(const char* call, ibv_pd* pd, void* address, std::size_t length,
                        std::uint64_t iova, std::uint32_t access, std::uint32_t made_of) {
  const auto granted = to_rights(access);
  if (!granted) return refused_null(call, granted.error());
  Usage& usage = from(pd->context).usage();
  const bool is_pinned = made_of == 0 && (*granted & IBV_ACCESS_ON_DEMAND) == 0;
  auto share = usage.take(Resource::region, is_pinned ? pages_of(address, length) : 0);
  if (!share) return refused_null(call, share.error());
  const bool zero_based = (*granted & IBV_ACCESS_ZERO_BASED) != 0;
  const auto key = from(pd->context)
                       .adapter()
                       .memory()
                       .register_memory({.address = reinterpret_cast<std::uint64_t>(address),
                                         .length = length,
                                         .iova = zero_based ? 0 : iova,
                                         .access = *granted | made_of,
                                         .pd = from(pd).number()});
  if (!key) return refused_null(call, key.error());
  auto* region = new MemoryRegion{.verbs = {.context = pd->context,
                                            .pd = pd,
                                            .addr = address,
                                            .length = length,
                                            .handle = raw(*key),
                                            .lkey = raw(*key),
                                            .rkey = raw(*key)},
                                  .share = std::move(*share)};
  return &region->verbs;
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  constexpr std::uint64_t kEverything = std::numeric_limits<std::uint64_t>::max();
  auto share = from(pd->context).usage().take(Resource::region);
  if (!share) return refused_null("alloc_null_mr", share.error());
  const auto key = from(pd->context)
                       .adapter()
                       .memory()
                       .register_memory({.length = kEverything,
                                         .access = region::kLocalWrite | region::kNull,
                                         .pd = from(pd).number()});
  if (!key) return refused_null("alloc_null_mr", key.error());
  auto* region = new MemoryRegion{.verbs = {.context = pd->context,
                                            .pd = pd,
                                            .length = std::numeric_limits<std::size_t>::max(),
                                            .handle = raw(*key),
                                            .lkey = raw(*key)},
                                  .share = std::move(*share)};
  return &region->verbs;
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) {
  using Prefetch = adapter::Regions::Prefetch;
  if (advice < IBV_ADVISE_MR_ADVICE_PREFETCH || advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return refused("advise_mr", {ENOTSUP, fmt::format("advice {} is unknown", int{advice})});
  }
  if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) {
    return refused("advise_mr", {EINVAL, fmt::format("flags {:#x} are unknown", flags)});
  }
  if (count == 0) return refused("advise_mr", {EINVAL, "there is nothing in the list"});
  const auto done = from(pd->context)
                        .adapter()
                        .memory()
                        .prefetch(from(pd).number(), static_cast<Prefetch>(advice),
                                  (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0,
                                  {reinterpret_cast<const adapter::Segment*>(list), count});
  return done ? 0 : refused("advise_mr", done.error());
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  return register_memory("reg_mr", pd, addr, length, reinterpret_cast<std::uint64_t>(addr),
                         static_cast<std::uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                        int access) {
  return register_memory("reg_mr_iova", pd, addr, length, iova, static_cast<std::uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                         unsigned int access) {
  return register_memory("reg_mr_iova2", pd, addr, length, iova, access);
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) {
  // A refusal here has changed nothing: the old region stays valid.
  const auto refuse_input = [](const Error& error) {
    errno = refused("rereg_mr", error);
    return int{IBV_REREG_MR_ERR_INPUT};
  };
  MemoryRegion& own = from(mr);
  if (auto valid = check_change(flags, pd, addr, length, access); !valid) {
    return refuse_input(valid.error());
  }
  adapter::Adapter& adapter = from(mr->context).adapter();
  const auto before = adapter.regions().find_region(MemoryKey{mr->lkey});
  const bool ordinary = before && own.device_memory == 0 && own.mapped.empty() &&
                        !own.is_imported && (before->access & region::kNull) == 0;
  if (!ordinary) return refuse_input({EINVAL, "only regions of ibv_reg_mr can be changed"});
  const auto after = changed(*before, flags, pd, addr, length, access);
  if (!after) return refuse_input(after.error());
  // Counted in addition to the old pages: a kernel pins the new pages before it releases the old
  // ones.
  Share share = from(mr->context).usage().nothing();
  const bool is_pinned = (after->access & region::kOnDemand) == 0;
  const auto pages =
      is_pinned ? pages_of(reinterpret_cast<const void*>(after->address), after->length) : 0;
  if (auto locked = share.lock(pages); !locked) return refuse_input(locked.error());
  if (auto done = adapter.memory().change_memory(MemoryKey{mr->lkey}, *after); !done) {
    return refuse_input(done.error());
  }
  own.share.swap_locked(share);
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) mr->pd = pd;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    mr->addr = addr;
    mr->length = length;
  }
  return 0;
}

int ibv_dereg_mr(ibv_mr* mr) {
  MemoryRegion& own = from(mr);
  adapter::Adapter& adapter = from(mr->context).adapter();
  if (own.is_imported) {
    return refused("dereg_mr", {EOPNOTSUPP,
                                "the region is another process's, which deregisters "
                                "it; ibv_unimport_mr lets go of it"});
  }
  if (auto done = adapter.memory().deregister_memory(MemoryKey{mr->lkey}); !done) {
    return refused("dereg_mr", done.error());
  }
  if (own.device_memory != 0) adapter.imports().device_memory().remove_region(own.device_memory);
  if (!own.mapped.empty()) munmap(own.mapped.data(), own.mapped.size());
  delete &own;
  return 0;
}
