#include <algorithm>
#include <cerrno>
#include <new>

#include <fmt/format.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Protection domains, thread domains and parent domains.
namespace verbatim::dropin {

ProgramMemory::ProgramMemory(ibv_pd* domain, const ibv_parent_domain_init_attr& attributes)
    : domain_(domain),
      allocate_(attributes.alloc),
      free_(attributes.free),
      context_((attributes.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0
                   ? attributes.pd_context
                   : nullptr) {}

namespace {

/// The resource type that the program's allocation functions are given.
constexpr std::uint64_t kSendQueue = 1;

/// A cache line. Programs may pass the alignment to functions that require at least a pointer's.
constexpr std::size_t kAlignment = 64;

Result<void> check(const ibv_parent_domain_init_attr& wanted) {
  // IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC of rdma-core 65: a device without
  // IBV_DEVICE_CC_DMA_BOUNCE uses plain memory all the same.
  constexpr std::uint32_t kAllowUnprotected = 1U << 2;
  constexpr std::uint32_t kKnown = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                                   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kAllowUnprotected;
  if ((wanted.comp_mask & ~kKnown) != 0) {
    return refuse(EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted.comp_mask & ~kKnown));
  }
  if (wanted.pd == nullptr) return refuse(EINVAL, "a parent domain needs a protection domain");
  if (from(wanted.pd).parent != nullptr) {
    return refuse(EINVAL, "a parent domain is made of a protection domain, not of another one");
  }
  const bool allocates = (wanted.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (allocates && (wanted.alloc == nullptr || wanted.free == nullptr)) {
    return refuse(EINVAL, "IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS needs both functions");
  }
  return {};
}

Result<void> check_unused(const ProtectionDomain& domain) {
  const auto users = domain.users->load();
  if (users == 0) return {};
  return refuse(EBUSY, fmt::format("{} objects still use it", users));
}

}  // namespace

void* ProgramMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  alignment = std::max(alignment, kAlignment);
  void* const memory = allocate_(domain_, context_, bytes, alignment, kSendQueue);
  if (memory == nullptr) throw std::bad_alloc();  // Caught in the creation of the queue pair.
  if (memory != IBV_ALLOCATOR_USE_DEFAULT) return memory;
  void* const own = ::operator new(bytes, std::align_val_t{kAlignment});
  const std::lock_guard guard(lock_);
  defaults_.insert(own);
  return own;
}

void ProgramMemory::do_deallocate(void* memory, std::size_t, std::size_t) {
  {
    const std::lock_guard guard(lock_);
    if (defaults_.erase(memory) == 1) {
      return ::operator delete(memory, std::align_val_t{kAlignment});
    }
  }
  free_(domain_, context_, memory, kSendQueue);
}

/// Objects are thread-safe, and an uncontended lock costs next to nothing: so a thread domain is
/// only a name.
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted) {
  if (wanted->comp_mask != 0) {
    return refused_null("alloc_td",
                        {EINVAL, fmt::format("comp_mask {:#x} is unknown", wanted->comp_mask)});
  }
  return &(new ThreadDomain{.verbs = {.context = context}})->verbs;
}

int dealloc_td(ibv_td* td) {
  ThreadDomain& own = from(td);
  if (const auto users = own.users->load(); users != 0) {
    return refused("dealloc_td", {EBUSY, fmt::format("{} parent domains use it", users)});
  }
  delete &own;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  if (auto valid = check(*wanted); !valid) {
    return refused_null("alloc_parent_domain", valid.error());
  }
  auto* const own = new ProtectionDomain;
  own->verbs = {.context = context, .handle = wanted->pd->handle};
  own->parent = std::make_unique<ParentDomain>();
  own->parent->domain = Use(&from(wanted->pd));
  own->parent->threads = Use(wanted->td != nullptr ? &from(wanted->td) : nullptr);
  if ((wanted->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
    own->parent->memory.emplace(&own->verbs, *wanted);
  }
  return &own->verbs;
}

}  // namespace verbatim::dropin

using namespace verbatim::dropin;

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto share = from(context).usage().take(Resource::protection_domain);
  if (!share) return refused_null("alloc_pd", share.error());
  const auto number = from(context).adapter().memory().allocate_pd();
  if (!number) return refused_null("alloc_pd", number.error());
  auto* pd = new ProtectionDomain;
  pd->share = std::move(*share);
  pd->verbs = {.context = context, .handle = raw(*number)};
  return &pd->verbs;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  ProtectionDomain& own = from(pd);
  if (own.parent == nullptr && from(pd->context).adapter().memory().is_imported(own.number())) {
    return refused("dealloc_pd", {EOPNOTSUPP,
                                  "the domain is another process's, which deallocates "
                                  "it; ibv_unimport_pd lets go of it"});
  }
  if (auto unused = check_unused(own); !unused) return refused("dealloc_pd", unused.error());
  if (own.parent == nullptr) {
    if (auto done = from(pd->context).adapter().memory().deallocate_pd(own.number()); !done) {
      return refused("dealloc_pd", done.error());
    }
  }
  delete &own;
  return 0;
}
