#include <cerrno>
#include <chrono>

#include "test_util.h"

/// Packet pacing: a queue pair does not exceed its rate, and loses nothing by it.
namespace verbs_test {
namespace {

using std::chrono::steady_clock;

int limit(const Endpoint& endpoint, std::uint32_t kbps, std::uint32_t burst = 0) {
  ibv_qp_rate_limit_attr wanted{};
  wanted.rate_limit = kbps;
  wanted.max_burst_sz = burst;
  return ibv_modify_qp_rate_limit(endpoint.qp(), &wanted);
}

/// Returns the seconds until `count` requests of 32 KiB have completed.
double seconds_for(const Pair& pair, ibv_wr_opcode opcode, int count) {
  const auto began = steady_clock::now();
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(pair.a.post(opcode, 1, 0, 32 << 10, to(pair.b)), 0);
    EXPECT_EQ(pair.a.wait().status, IBV_WC_SUCCESS);
  }
  return std::chrono::duration<double>(steady_clock::now() - began).count();
}

TEST(RateLimit, HoldsTheRequester) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    const Pair pair(EndpointOptions{.type = type});
    ASSERT_EQ(limit(pair.a, 40'000, 4096), 0);  // 5 MB/s.
    EXPECT_GT(seconds_for(pair, IBV_WR_RDMA_WRITE, 32), 0.19) << type;
    ASSERT_EQ(limit(pair.a, 0), 0);
    // With pacing, 64 MiB would take 13 seconds.
    EXPECT_LT(seconds_for(pair, IBV_WR_RDMA_WRITE, 2048), 10) << type;
  }
}

/// The interval between two packets exceeds the ACK time-out.
TEST(RateLimit, SlownessIsNoLoss) {
  ConnectOptions connection;
  connection.timeout = 10;  // 4 ms.
  connection.retry_count = 0;
  const Pair pair({}, connection);
  ASSERT_EQ(limit(pair.a, 1000, 1), 0);  // 1 KiB every 8 ms.
  fill(pair.a.memory().first(8 << 10), 7);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 8 << 10, to(pair.b)), 0);
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(difference(pair.b.memory().first(8 << 10), 7), std::nullopt);
}

TEST(RateLimit, HoldsDatagrams) {
  const Pair pair(EndpointOptions{.type = IBV_QPT_UD, .sends = 64, .receives = 64});
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_EQ(pair.b.receive(i, 0, 2048), 0);
  ibv_ah_attr vector{};
  vector.is_global = 1;
  vector.port_num = 1;
  vector.grh.sgid_index = 1;
  vector.grh.dgid = pair.host.gid(1);
  const Owned<ibv_ah> ah(ibv_create_ah(pair.host.pd(), &vector));
  ASSERT_EQ(limit(pair.a, 4'000, 1), 0);  // 1 KiB every 2 ms.
  const auto began = steady_clock::now();
  for (std::uint64_t i = 0; i < 50; ++i) {
    ASSERT_EQ(pair.a.post(IBV_WR_SEND, i, 0, 1024,
                          [&](ibv_send_wr& request) {
                            request.wr.ud = {.ah = ah.get(),
                                             .remote_qpn = pair.b.qp()->qp_num,
                                             .remote_qkey = kQKey};
                          }),
              0);
  }
  for (std::uint64_t i = 0; i < 50; ++i) {
    ASSERT_OK(pair.a.wait());
    ASSERT_OK(pair.b.wait());
  }
  EXPECT_GT(std::chrono::duration<double>(steady_clock::now() - began).count(), 0.1);
}

/// For raw packets it can also be set by ibv_modify_qp.
TEST(RateLimit, HoldsRawPackets) {
  const OpenDevice host;
  const Endpoint end(host, {.type = IBV_QPT_RAW_PACKET});
  end.connect({});
  constexpr std::uint32_t kFrameBytes = 1500;
  std::memset(end.memory().data(), 0xff, 12);  // To a group without members.
  const auto seconds_at = [&](std::uint32_t kbps) {
    ibv_qp_attr wanted{};
    wanted.rate_limit = kbps;
    EXPECT_EQ(ibv_modify_qp(end.qp(), &wanted, IBV_QP_RATE_LIMIT), 0);
    const auto began = steady_clock::now();
    for (std::uint64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(end.post(IBV_WR_SEND, i, 0, kFrameBytes), 0);
      EXPECT_EQ(end.wait().status, IBV_WC_SUCCESS);
    }
    return std::chrono::duration<double>(steady_clock::now() - began).count();
  };
  EXPECT_GT(seconds_at(4000), 0.15);  // 500 KB/s; the first 64 KiB are a burst.
  ibv_qp_attr now{};
  ibv_qp_init_attr options{};
  ASSERT_EQ(ibv_query_qp(end.qp(), &now, IBV_QP_RATE_LIMIT, &options), 0);
  EXPECT_EQ(now.rate_limit, 4000u);
  seconds_at(0);
  ASSERT_EQ(ibv_query_qp(end.qp(), &now, IBV_QP_RATE_LIMIT, &options), 0);
  EXPECT_EQ(now.rate_limit, 0u);
  now.rate_limit = UINT32_MAX;
  EXPECT_EQ(ibv_modify_qp(end.qp(), &now, IBV_QP_RATE_LIMIT), EINVAL);
}

TEST(RateLimit, CapabilitiesAreTrue) {
  const Pair pair;
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(pair.host.context(), nullptr, &attributes), 0);
  const auto& caps = attributes.packet_pacing_caps;
  EXPECT_TRUE(ibv_is_qpt_supported(caps.supported_qpts, IBV_QPT_RC));
  EXPECT_EQ(limit(pair.a, caps.qp_rate_limit_max), 0);
  EXPECT_EQ(limit(pair.a, caps.qp_rate_limit_max + 1), EINVAL);
  EXPECT_EQ(limit(pair.a, caps.qp_rate_limit_min), 0);
}

}  // namespace
}  // namespace verbs_test
