#include <cerrno>

#include <fmt/format.h>

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

/// The rights that a region is registered with. Optional bits are hints, which a device may ignore;
/// so is huge pages'.
Result<std::uint32_t> rights(std::uint32_t access) {
  access &= ~std::uint32_t{IBV_ACCESS_OPTIONAL_RANGE} & ~std::uint32_t{IBV_ACCESS_HUGETLB};
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
    return refuse(EOPNOTSUPP, "on-demand paging (IBV_ACCESS_ON_DEMAND) is not implemented");
  }
  constexpr std::uint32_t kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
  if ((access & ~kKnown) != 0) {
    return refuse(EINVAL, fmt::format("access flags {:#x} are unknown", access & ~kKnown));
  }
  return access;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        std::uint32_t access) {
  const auto granted = rights(access);
  if (!granted) return refused_null("reg_mr", granted.error());
  const bool zero_based = (*granted & IBV_ACCESS_ZERO_BASED) != 0;
  const auto key = from(pd->context)
                       .adapter()
                       .register_memory({.address = reinterpret_cast<std::uint64_t>(address),
                                         .length = length,
                                         .iova = zero_based ? 0 : iova,
                                         .access = *granted,
                                         .pd = from(pd).number()});
  if (!key) return refused_null("reg_mr", key.error());
  auto* region = new MemoryRegion{.verbs = {.context = pd->context,
                                            .pd = pd,
                                            .addr = address,
                                            .length = length,
                                            .handle = raw(*key),
                                            .lkey = raw(*key),
                                            .rkey = raw(*key)}};
  return &region->verbs;
}

}  // namespace
}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  return register_memory(pd, addr, length, reinterpret_cast<std::uint64_t>(addr),
                         static_cast<std::uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                        int access) {
  return register_memory(pd, addr, length, iova, static_cast<std::uint32_t>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                         unsigned int access) {
  return register_memory(pd, addr, length, iova, access);
}

int ibv_dereg_mr(ibv_mr* mr) {
  if (auto done = from(mr->context).adapter().deregister_memory(MemoryKey{mr->lkey}); !done) {
    return refused("dereg_mr", done.error());
  }
  delete &from(mr);
  return 0;
}
