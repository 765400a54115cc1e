#include <cerrno>

#include "test_util.h"

/// Memory windows of both types, invalidation from both sides, and ATOMIC WRITE.
namespace verbs_test {
namespace {

constexpr EndpointOptions kWithWindows{.memory_access = kAllAccess | IBV_ACCESS_MW_BIND};

struct Free {
  void operator()(ibv_mw* mw) const { EXPECT_EQ(ibv_dealloc_mw(mw), 0); }
};
using Window = std::unique_ptr<ibv_mw, Free>;

class MemoryWindow : public testing::Test {
 protected:
  Window make(ibv_mw_type type) {
    Window window(ibv_alloc_mw(pair.host.pd(), type));
    EXPECT_NE(window, nullptr);
    return window;
  }
  ibv_mw_bind_info bytes(std::uint64_t length = 100,
                         unsigned access = IBV_ACCESS_REMOTE_WRITE) const {
    return {.mr = pair.b.mr(), .addr = pair.b.at(0), .length = length, .mw_access_flags = access};
  }
  int bind_1(ibv_mw* window, const ibv_mw_bind_info& info) const {
    ibv_mw_bind wanted{.wr_id = 9, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    return ibv_bind_mw(pair.b.qp(), window, &wanted);
  }
  /// Binds a type 2 window by a request of b's and returns its new key.
  std::uint32_t bind_2(ibv_mw* window, const ibv_mw_bind_info& info) const {
    ibv_send_wr bind{.wr_id = 9, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    bind.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
    EXPECT_EQ(pair.b.post(bind, {}), 0);
    return bind.bind_mw.rkey;
  }
  ibv_wc_status write(std::uint32_t rkey, std::uint64_t address) const {
    EXPECT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8,
                          [=](ibv_send_wr& request) {
                            request.wr.rdma = {.remote_addr = address, .rkey = rkey};
                          }),
              0);
    return pair.a.wait().status;
  }
  void expect_bound(ibv_wc_status status = IBV_WC_SUCCESS) const {
    const ibv_wc bound = pair.b.wait();
    EXPECT_EQ(bound.status, status);
    EXPECT_EQ(bound.wr_id, 9u);
    if (status == IBV_WC_SUCCESS) {
      EXPECT_EQ(bound.opcode, IBV_WC_BIND_MW);
    }
  }

  const Pair pair{kWithWindows};
};

TEST_F(MemoryWindow, Type1OpensWhatItIsBoundTo) {
  const Window window = make(IBV_MW_TYPE_1);
  const std::uint32_t unbound = window->rkey;
  ASSERT_EQ(bind_1(window.get(), bytes()), 0);
  EXPECT_NE(window->rkey, unbound);
  expect_bound();
  EXPECT_EQ(write(window->rkey, pair.b.at(92)), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(pair.b.mr()), EBUSY);
  ASSERT_EQ(bind_1(window.get(), {}), 0) << "no bytes: unbound";
  expect_bound();
  EXPECT_EQ(write(window->rkey, pair.b.at(92)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindow, ZeroBased) {
  const Window window = make(IBV_MW_TYPE_1);
  ASSERT_EQ(bind_1(window.get(), bytes(100, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED)), 0);
  expect_bound();
  fill(pair.a.memory(), 1);
  EXPECT_EQ(write(window->rkey, 0), IBV_WC_SUCCESS);
  EXPECT_EQ(difference(pair.b.memory().first(8), 1), std::nullopt);
}

TEST_F(MemoryWindow, Type2IsEndedByItsOwner) {
  const Window window = make(IBV_MW_TYPE_2);
  const std::uint32_t key = bind_2(window.get(), bytes());
  expect_bound();
  EXPECT_EQ(write(key, pair.b.at(0)), IBV_WC_SUCCESS);
  ibv_send_wr end{.wr_id = 8, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
  end.invalidate_rkey = key;
  ASSERT_EQ(pair.b.post(end, {}), 0);
  const ibv_wc ended = pair.b.wait();
  ASSERT_OK(ended);
  EXPECT_EQ(ended.opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(write(key, pair.b.at(0)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindow, Type2IsEndedByThePeer) {
  const Window window = make(IBV_MW_TYPE_2);
  const std::uint32_t key = bind_2(window.get(), bytes());
  expect_bound();
  ASSERT_EQ(pair.b.receive(5, 0, 100), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND_WITH_INV, 4, 0, 10,
                        [=](ibv_send_wr& request) { request.invalidate_rkey = key; }),
            0);
  const ibv_wc received = pair.b.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.wc_flags, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(received.invalidated_rkey, key);
  const ibv_wc sent = pair.a.wait();
  ASSERT_OK(sent);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(write(key, pair.b.at(0)), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(MemoryWindow, PeerCannotEndWhatIsNoWindow) {
  ASSERT_EQ(pair.b.receive(5, 0, 100), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND_WITH_INV, 4, 0, 10,
                        [&](ibv_send_wr& request) { request.invalidate_rkey = pair.b.mr()->rkey; }),
            0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(pair.b.wait().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(MemoryWindow, BindThatBreaksARuleEndsTheQueuePair) {
  const Window window = make(IBV_MW_TYPE_2);
  bind_2(window.get(), bytes((64 << 10) + 1));
  expect_bound(IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

TEST_F(MemoryWindow, WrongUse) {
  EXPECT_EQ(ibv_alloc_mw(pair.host.pd(), static_cast<ibv_mw_type>(3)), nullptr);
  const Window one = make(IBV_MW_TYPE_1);
  const Window two = make(IBV_MW_TYPE_2);
  EXPECT_EQ(bind_1(two.get(), bytes()), EINVAL) << "type 2 is bound by a request";
  ibv_send_wr bind{.opcode = IBV_WR_BIND_MW};
  bind.bind_mw = {.mw = one.get(), .rkey = one->rkey, .bind_info = bytes()};
  EXPECT_EQ(pair.b.post(bind, {}), EINVAL) << "type 1 by its call";
  ibv_mw_bind_info no_region = bytes();
  no_region.mr = nullptr;
  EXPECT_EQ(bind_1(one.get(), no_region), EINVAL);
}

TEST_F(MemoryWindow, DomainStaysWhileItHasWindows) {
  ibv_pd* const pd = ibv_alloc_pd(pair.host.context());
  Window window(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  window.reset();
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(MemoryWindow, AtomicWriteStoresEightBytes) {
  fill(pair.a.memory(), 2);
  ASSERT_EQ(pair.a.post(IBV_WR_ATOMIC_WRITE, 1, 0, 8, to(pair.b, 16)), 0);
  const ibv_wc written = pair.a.wait();
  ASSERT_OK(written);
  EXPECT_EQ(written.opcode, IBV_WC_ATOMIC_WRITE);
  EXPECT_EQ(difference(pair.b.memory().subspan(16, 8), 2), std::nullopt);
  EXPECT_EQ(pair.a.post(IBV_WR_ATOMIC_WRITE, 1, 0, 4, to(pair.b, 16)), EINVAL);
  ASSERT_EQ(pair.a.post(IBV_WR_ATOMIC_WRITE, 1, 0, 8, to(pair.b, 4)), 0);
  EXPECT_EQ(pair.a.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

}  // namespace
}  // namespace verbs_test
