#include <cerrno>

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test_util.h"

/// Regions of every kind: changed, zero-based, null, on-demand, on device memory and on
/// descriptors; and imported ones.
namespace verbs_test {
namespace {

const auto kPage = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));

/// Pages of anonymous memory that are unmapped at the end.
class Pages {
 public:
  explicit Pages(std::size_t count)
      : bytes_(count * kPage),
        at_(static_cast<std::byte*>(
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(at_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* at(std::size_t offset = 0) const { return at_ + offset; }
  std::span<std::byte> all() const { return {at_, bytes_}; }
  /// Has the effect of unmapping, but keeps the addresses reserved.
  void unmap() const { mprotect(at_, bytes_, PROT_NONE); }

 private:
  std::size_t bytes_;
  std::byte* at_;
};

std::function<void(ibv_send_wr&)> remote(std::uint64_t address, std::uint32_t rkey) {
  return [=](ibv_send_wr& request) {
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = rkey;
  };
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

TEST(Memory, ZeroBasedRegionIsAddressedFromItsStart) {
  const Pair pair;
  const Pages pages(1);
  const Owned<ibv_mr> mr(
      ibv_reg_mr(pair.host.pd(), pages.at(), kPage, kAllAccess | IBV_ACCESS_ZERO_BASED));
  ASSERT_NE(mr, nullptr);
  fill(pair.a.memory(), 1);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 100, remote(0, mr->rkey)), 0);
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(difference(pages.all().first(100), 1), std::nullopt);
}

TEST(Memory, ChangedAccessCountsFromThenOn) {
  const Pair pair;
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(pair.b)), 0);
  ASSERT_OK(pair.a.wait());
  const std::uint32_t key = pair.b.mr()->rkey;
  ASSERT_EQ(ibv_rereg_mr(pair.b.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE),
            0);
  EXPECT_EQ(pair.b.mr()->rkey, key);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 2, 0, 8, to(pair.b)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
}

TEST(Memory, ChangedTranslationLeadsElsewhere) {
  const Pair pair;
  const Pages first(1), second(2);
  const Owned<ibv_mr> mr(ibv_reg_mr(pair.host.pd(), first.at(), kPage, kAllAccess));
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(
      ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second.at(), 2 * kPage, 0),
      0);
  EXPECT_EQ(mr->addr, second.at());
  EXPECT_EQ(mr->length, 2 * kPage);
  fill(pair.a.memory(), 2);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 100, remote(number(second.at(kPage)), mr->rkey)),
            0);
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(difference(second.all().subspan(kPage, 100), 2), std::nullopt);
}

TEST(Memory, ChangedDomainIsInUse) {
  const OpenDevice host;
  ibv_pd* const other = ibv_alloc_pd(host.context());
  const Pages pages(1);
  Owned<ibv_mr> mr(ibv_reg_mr(host.pd(), pages.at(), kPage, kAllAccess));
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  mr.reset();
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST(Memory, WrongChangesLeaveTheRegionAsItIs) {
  const Pair pair;
  ibv_mr* const mr = pair.b.mr();
  const auto refused = [mr](int flags, ibv_pd* pd, void* address, std::size_t length, int access,
                            int code) {
    EXPECT_EQ(ibv_rereg_mr(mr, flags, pd, address, length, access), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(errno, code);
  };
  refused(0, nullptr, nullptr, 0, 0, EINVAL);
  refused(8, nullptr, nullptr, 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 8, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, mr->addr, 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, reinterpret_cast<void*>(std::uintptr_t{kPage}),
          8, 0, EFAULT);
  refused(IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0, EINVAL);
  refused(IBV_REREG_MR_CHANGE_PD, pair.host.pd(), nullptr, 0, IBV_ACCESS_LOCAL_WRITE, EINVAL);
  refused(IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(pair.b)), 0);
  ASSERT_OK(pair.a.wait());
}

TEST(Memory, NullRegionDropsAndReadsZeroes) {
  const Pair pair;
  const Owned<ibv_mr> null(ibv_alloc_null_mr(pair.host.pd()));
  ASSERT_NE(null, nullptr);
  fill(pair.b.memory(), 3);
  ibv_send_wr read{.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED};
  to(pair.b)(read);
  // The middle thousand of 3000 bytes is dropped.
  ASSERT_EQ(pair.a.post(read, {pair.a.segment(0, 1000),
                               {.addr = 0xdead0000, .length = 1000, .lkey = null->lkey},
                               pair.a.segment(2000, 1000)}),
            0);
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(difference(pair.a.memory().first(1000), 3), std::nullopt);
  EXPECT_EQ(std::memcmp(pair.a.memory().data() + 2000, pair.b.memory().data() + 2000, 1000), 0);
  ibv_send_wr write{.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  to(pair.b)(write);
  ASSERT_EQ(pair.a.post(write, {{.addr = 8, .length = 3000, .lkey = null->lkey}}), 0);
  ASSERT_OK(pair.a.wait());
  for (std::size_t i = 0; i < 3000; ++i) ASSERT_EQ(pair.b.memory()[i], std::byte{0}) << i;
}

class OnDemand : public testing::Test {
 protected:
  static constexpr int kAccess = kAllAccess | IBV_ACCESS_ON_DEMAND;
  Owned<ibv_mr> implicit(const OpenDevice& host) {
    return Owned<ibv_mr>(ibv_reg_mr(host.pd(), nullptr, SIZE_MAX, kAccess));
  }
};

TEST_F(OnDemand, RegistrationTouchesNothing) {
  const OpenDevice host;
  const Pages pages(64);
  const Owned<ibv_mr> mr(ibv_reg_mr(host.pd(), pages.at(), 64 * kPage, kAccess));
  ASSERT_NE(mr, nullptr);
  unsigned char resident[64];
  ASSERT_EQ(mincore(pages.at(), 64 * kPage, resident), 0);
  for (const unsigned char page : resident) EXPECT_EQ(page & 1, 0);
}

TEST_F(OnDemand, EveryOperationWorksThroughAnImplicitRegion) {
  const Pair pair;
  const auto mr = implicit(pair.host);
  ASSERT_NE(mr, nullptr);
  const Pages local(4), target(4);
  fill(local.all(), 4);
  const auto segment = [&](const Pages& pages, std::uint32_t length) {
    return std::vector<ibv_sge>{{.addr = number(pages.at()), .length = length, .lkey = mr->lkey}};
  };
  const auto post = [&](ibv_wr_opcode opcode, const Pages& pages, std::uint32_t length) {
    ibv_send_wr request{.wr_id = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    remote(number(target.at()), mr->rkey)(request);
    ASSERT_EQ(pair.a.post(request, segment(pages, length)), 0);
    ASSERT_OK(pair.a.wait());
  };
  post(IBV_WR_RDMA_WRITE, local, 3 * kPage);
  EXPECT_EQ(difference(target.all().first(3 * kPage), 4), std::nullopt);
  const Pages back(4);
  post(IBV_WR_RDMA_READ, back, 3 * kPage);
  EXPECT_EQ(difference(back.all().first(3 * kPage), 4), std::nullopt);
  ASSERT_EQ(pair.b.receive(2, segment(target, 4 * kPage)), 0);
  post(IBV_WR_SEND, local, 100);
  ASSERT_OK(pair.b.wait());
  ibv_send_wr add{
      .wr_id = 3, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
  add.wr.atomic = {.remote_addr = number(target.at(kPage)), .compare_add = 5, .rkey = mr->rkey};
  std::uint64_t before = 0;
  std::memcpy(&before, target.at(kPage), 8);
  ASSERT_EQ(pair.a.post(add, segment(back, 8)), 0);
  ASSERT_OK(pair.a.wait());
  std::uint64_t after = 0;
  std::memcpy(&after, target.at(kPage), 8);
  EXPECT_EQ(after, before + 5);
}

TEST_F(OnDemand, MemoryThatThePeerHasUnmappedIsAnAccessError) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    const Pair pair;
    const auto mr = implicit(pair.host);
    const Pages gone(1);
    gone.unmap();
    ASSERT_EQ(pair.a.post(opcode, 1, 0, 100, remote(number(gone.at()), mr->rkey)), 0);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_F(OnDemand, OwnMemoryThatIsUnmappedIsAProtectionError) {
  const Pair pair;
  const auto mr = implicit(pair.host);
  const Pages gone(1);
  gone.unmap();
  ibv_send_wr send{.wr_id = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  ASSERT_EQ(pair.a.post(send, {{.addr = number(gone.at()), .length = 1000, .lkey = mr->lkey}}), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(OnDemand, AdviceBringsPagesIn) {
  const OpenDevice host;
  const Pages pages(4);
  const Owned<ibv_mr> mr(ibv_reg_mr(host.pd(), pages.at(), 4 * kPage, kAccess));
  ASSERT_NE(mr, nullptr);
  ibv_sge part{.addr = number(pages.at(kPage)), .length = kPage, .lkey = mr->lkey};
  ASSERT_EQ(ibv_advise_mr(host.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
                          &part, 1),
            0);
  unsigned char resident[4];
  ASSERT_EQ(mincore(pages.at(), 4 * kPage, resident), 0);
  EXPECT_EQ(resident[0] & 1, 0);
  EXPECT_EQ(resident[1] & 1, 1);
}

TEST_F(OnDemand, WrongAdvice) {
  const OpenDevice host;
  const Pages pages(2);
  const Owned<ibv_mr> pinned(ibv_reg_mr(host.pd(), pages.at(), kPage, kAllAccess));
  const Owned<ibv_mr> read_only(
      ibv_reg_mr(host.pd(), pages.at(), kPage, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND));
  const Owned<ibv_pd> other(ibv_alloc_pd(host.context()));
  const auto advise = [&](std::uint32_t lkey, std::uint32_t length, ibv_advise_mr_advice advice,
                          std::uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH, ibv_pd* pd = nullptr) {
    ibv_sge part{.addr = number(pages.at()), .length = length, .lkey = lkey};
    return ibv_advise_mr(pd != nullptr ? pd : host.pd(), advice, flags, &part, 1);
  };
  constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH;
  EXPECT_EQ(advise(read_only->lkey, kPage, kRead), 0);
  EXPECT_EQ(advise(read_only->lkey, kPage + 1, kRead), EFAULT);
  EXPECT_EQ(advise(read_only->lkey, kPage, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE), EPERM);
  EXPECT_EQ(advise(read_only->lkey, kPage, kRead, 0, other.get()), EPERM);
  EXPECT_EQ(advise(pinned->lkey, kPage, kRead), EINVAL);
  EXPECT_EQ(advise(~read_only->lkey, kPage, kRead), ENOENT);
  EXPECT_EQ(advise(read_only->lkey, kPage, kRead, 2), EINVAL);
  EXPECT_EQ(advise(read_only->lkey, kPage, static_cast<ibv_advise_mr_advice>(3)), ENOTSUP);
  pages.unmap();
  EXPECT_EQ(advise(read_only->lkey, kPage, kRead), EFAULT);
  EXPECT_EQ(advise(read_only->lkey, kPage, kRead, 0), 0) << "nobody waits for the pages";
}

TEST(DeviceMemory, IsReachedByCopiesAndByPeers) {
  const Pair pair;
  ibv_alloc_dm_attr wanted{.length = 2 * kPage};
  ibv_dm* const dm = ibv_alloc_dm(pair.host.context(), &wanted);
  ASSERT_NE(dm, nullptr);
  Owned<ibv_mr> mr(
      ibv_reg_dm_mr(pair.host.pd(), dm, kPage, kPage, kAllAccess | IBV_ACCESS_ZERO_BASED));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  fill(pair.a.memory(), 5);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 100, remote(0, mr->rkey)), 0);
  ASSERT_OK(pair.a.wait());
  std::vector<std::byte> copy(100);
  ASSERT_EQ(ibv_memcpy_from_dm(copy.data(), dm, kPage, copy.size()), 0);
  EXPECT_EQ(difference(copy, 5), std::nullopt);
  EXPECT_EQ(ibv_reg_dm_mr(pair.host.pd(), dm, 0, kPage, kAllAccess), nullptr) << "not zero-based";
  EXPECT_EQ(ibv_reg_dm_mr(pair.host.pd(), dm, kPage + 4, kPage, IBV_ACCESS_ZERO_BASED), nullptr);
  mr.reset();
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

class DmaBuffer : public testing::Test {
 protected:
  DmaBuffer() : fd_(memfd_create("buffer", 0)) { EXPECT_EQ(ftruncate(fd_, 4 * kPage), 0); }
  ~DmaBuffer() override { close(fd_); }
  int fd_;
};

TEST_F(DmaBuffer, IsARegionWhereItCanBeMapped) {
  const Pair pair;
  constexpr std::uint64_t kIova = 0x12340000 + 100;  // As the offset, within a page.
  const Owned<ibv_mr> mr(
      ibv_reg_dmabuf_mr(pair.host.pd(), kPage + 100, kPage, kIova, fd_, kAllAccess));
  ASSERT_NE(mr, nullptr);
  fill(pair.a.memory(), 6);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 100, remote(kIova, mr->rkey)), 0);
  ASSERT_OK(pair.a.wait());
  std::vector<std::byte> copy(100);
  ASSERT_EQ(pread(fd_, copy.data(), copy.size(), kPage + 100), 100);
  EXPECT_EQ(difference(copy, 6), std::nullopt);
  // The owner truncates it: an error, not a fault.
  ASSERT_EQ(ftruncate(fd_, 0), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 2, 0, 100, remote(kIova, mr->rkey)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(DmaBuffer, RefusesWhatItCannotMap) {
  const OpenDevice host;
  EXPECT_EQ(ibv_reg_dmabuf_mr(host.pd(), 0, 5 * kPage, 0, fd_, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const int counter = eventfd(0, 0);
  EXPECT_EQ(ibv_reg_dmabuf_mr(host.pd(), 0, kPage, 0, counter, kAllAccess), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  close(counter);
  EXPECT_EQ(ibv_reg_dmabuf_mr(host.pd(), 0, kPage, 0, -1, kAllAccess), nullptr);
  EXPECT_EQ(errno, EBADF);
}

TEST(Import, ContextDomainAndRegionAreShared) {
  const Pair pair;
  ibv_context* const context = ibv_import_device(dup(pair.host.context()->cmd_fd));
  ASSERT_NE(context, nullptr);
  ibv_pd* const pd = ibv_import_pd(context, pair.host.pd()->handle);
  ASSERT_NE(pd, nullptr);
  ibv_mr* const mr = ibv_import_mr(pd, pair.b.mr()->handle);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->lkey, pair.b.mr()->lkey);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8, remote(pair.b.at(0), mr->rkey)), 0);
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(ibv_import_mr(pd, ~mr->handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_pd(context, ~0u), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_unimport_mr(mr);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Import, AQueuePairOutlivesTheImportedDomain) {
  const OpenDevice host;
  ibv_context* const context = ibv_import_device(dup(host.context()->cmd_fd));
  ASSERT_NE(context, nullptr);
  ibv_pd* const pd = ibv_import_pd(context, host.pd()->handle);
  ASSERT_NE(pd, nullptr);
  Owned<ibv_cq> cq(ibv_create_cq(context, 4, nullptr, nullptr, 0));
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq.get();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {1, 1, 1, 1, 0};
  Owned<ibv_qp> qp(ibv_create_qp(pd, &wanted));
  ASSERT_NE(qp, nullptr);
  ibv_unimport_pd(pd);
  qp.reset();
  cq.reset();
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Import, DescriptorsOfOthersAreNoContexts) {
  const int fd = memfd_create("other", 0);
  EXPECT_EQ(ibv_import_device(fd), nullptr);
  EXPECT_EQ(errno, EINVAL);
  close(fd);
}

TEST(Limits, SayWhatWorksOnDemand) {
  const OpenDevice host;
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(host.context(), nullptr, &attributes), 0);
  EXPECT_EQ(attributes.odp_caps.general_caps,
            std::uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
  EXPECT_NE(attributes.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC, 0u);
  EXPECT_NE(attributes.orig_attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0u);
  ibv_alloc_dm_attr most{.length = attributes.max_dm_size};
  ibv_dm* const dm = ibv_alloc_dm(host.context(), &most);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  ++most.length;
  EXPECT_EQ(ibv_alloc_dm(host.context(), &most), nullptr);
}

}  // namespace
}  // namespace verbs_test
