#include <cerrno>
#include <cstdlib>
#include <set>

#include "test_util.h"

/// Parent domains and thread domains: objects made on one behave as on its protection domain.
namespace verbs_test {
namespace {

struct DeleteThreads {
  void operator()(ibv_td* td) const { EXPECT_EQ(ibv_dealloc_td(td), 0); }
};
using OwnedTd = std::unique_ptr<ibv_td, DeleteThreads>;

OwnedTd allocate_threads(const OpenDevice& host) {
  ibv_td_init_attr wanted{};
  return OwnedTd(ibv_alloc_td(host.context(), &wanted));
}

/// Arguments of the program's allocation functions.
struct Memory {
  std::set<void*> given;
  std::size_t bytes = 0;
  ibv_pd* domain = nullptr;
  bool use_default = false;
  bool fail = false;
  int frees = 0;
};

void* allocate(ibv_pd* pd, void* context, std::size_t size, std::size_t alignment, std::uint64_t) {
  Memory& memory = *static_cast<Memory*>(context);
  memory.domain = pd;
  memory.bytes += size;
  if (memory.fail) return nullptr;
  if (memory.use_default) return IBV_ALLOCATOR_USE_DEFAULT;
  void* block = nullptr;
  EXPECT_EQ(posix_memalign(&block, alignment, size), 0);
  memory.given.insert(block);
  return block;
}

void release(ibv_pd* pd, void* context, void* block, std::uint64_t) {
  Memory& memory = *static_cast<Memory*>(context);
  EXPECT_EQ(pd, memory.domain);
  EXPECT_EQ(memory.given.erase(block), 1u);
  ++memory.frees;
  std::free(block);
}

Owned<ibv_pd> allocate_parent(const OpenDevice& host, Memory* memory, ibv_td* td = nullptr) {
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = host.pd();
  wanted.td = td;
  if (memory != nullptr) {
    wanted.comp_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    wanted.alloc = allocate;
    wanted.free = release;
    wanted.pd_context = memory;
  }
  return Owned<ibv_pd>(ibv_alloc_parent_domain(host.context(), &wanted));
}

EndpointOptions on(const Owned<ibv_pd>& pd) {
  EndpointOptions options;
  options.pd = pd.get();
  return options;
}

/// The memory region belongs to the protection domain, the queue pair to the parent domain: both
/// are one domain.
void expect_traffic(const Endpoint& endpoint) {
  endpoint.connect(endpoint.address());
  fill(endpoint.memory().first(64), 5);
  ASSERT_EQ(endpoint.post(IBV_WR_RDMA_WRITE, 1, 0, 64, to(endpoint, 4096)), 0);
  ASSERT_OK(endpoint.wait());
  EXPECT_EQ(difference(endpoint.memory().subspan(4096, 64), 5), std::nullopt);
}

TEST(ParentDomain, IsItsProtectionDomain) {
  const OpenDevice host;
  const OwnedTd td = allocate_threads(host);
  const auto parent = allocate_parent(host, nullptr, td.get());
  ASSERT_NE(parent, nullptr);
  const Endpoint endpoint(host, on(parent));
  expect_traffic(endpoint);
}

TEST(ParentDomain, SendQueuesLieInTheProgramsMemory) {
  const OpenDevice host;
  Memory memory;
  const auto parent = allocate_parent(host, &memory);
  {
    const Endpoint endpoint(host, on(parent));
    EXPECT_GT(memory.given.size(), 0u);
    EXPECT_EQ(memory.domain, parent.get());
    EXPECT_EQ(memory.frees, 0);
    expect_traffic(endpoint);
  }
  EXPECT_TRUE(memory.given.empty());
  EXPECT_GT(memory.frees, 0);
}

TEST(ParentDomain, ProgramMayLeaveMemoryToUs) {
  const OpenDevice host;
  Memory memory;
  memory.use_default = true;
  const auto parent = allocate_parent(host, &memory);
  {
    const Endpoint endpoint(host, on(parent));
    expect_traffic(endpoint);
  }
  EXPECT_GT(memory.bytes, 0u);
  EXPECT_EQ(memory.frees, 0);
}

TEST(ParentDomain, WithoutMemoryThereIsNoQueuePair) {
  const OpenDevice host;
  Memory memory;
  memory.fail = true;
  const auto parent = allocate_parent(host, &memory);
  const Owned<ibv_cq> cq(ibv_create_cq(host.context(), 16, nullptr, nullptr, 0));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {4, 4, 1, 1, 0};
  EXPECT_EQ(ibv_create_qp(parent.get(), &wanted), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(ParentDomain, WhatItIsMadeOfStaysAsLongAsItIsUsed) {
  const OpenDevice host;
  OwnedTd td = allocate_threads(host);
  auto parent = allocate_parent(host, nullptr, td.get());
  EXPECT_EQ(ibv_dealloc_td(td.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(host.pd()), EBUSY);
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 4;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  wanted.parent_domain = parent.get();
  ibv_cq_ex* const cq = ibv_create_cq_ex(host.context(), &wanted);
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  {
    const Endpoint endpoint(host, on(parent));
    EXPECT_EQ(ibv_dealloc_pd(parent.get()), EBUSY);
  }
  parent.reset();
  td.reset();
}

TEST(ParentDomain, WrongUseIsEinval) {
  const OpenDevice host;
  const auto refused = [&](const ibv_parent_domain_init_attr& wanted) {
    ibv_parent_domain_init_attr copy = wanted;
    errno = 0;
    return ibv_alloc_parent_domain(host.context(), &copy) == nullptr ? errno : 0;
  };
  const auto parent = allocate_parent(host, nullptr);
  EXPECT_EQ(refused({.pd = nullptr}), EINVAL);
  EXPECT_EQ(refused({.pd = parent.get()}), EINVAL);
  EXPECT_EQ(refused({.pd = host.pd(), .comp_mask = 1u << 9}), EINVAL);
  EXPECT_EQ(refused({.pd = host.pd(), .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS}),
            EINVAL);
  ibv_td_init_attr unknown{.comp_mask = 1};
  EXPECT_EQ(ibv_alloc_td(host.context(), &unknown), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 4;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  wanted.parent_domain = host.pd();
  EXPECT_EQ(ibv_create_cq_ex(host.context(), &wanted), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace verbs_test
