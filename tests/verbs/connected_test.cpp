#include <initializer_list>
#include <tuple>

#include "test_util.h"

/// RC and UC between two queue pairs, byte for byte.
namespace verbs_test {
namespace {

constexpr std::uint32_t kImmediate = 0x11223344;

struct Shape {
  ibv_qp_type type;
  ibv_mtu mtu;
  std::uint32_t length;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << (shape.type == IBV_QPT_RC ? "RC" : "UC") << " mtu " << (128 << shape.mtu) << " length "
       << shape.length;
}

std::vector<Shape> shapes(std::initializer_list<ibv_qp_type> types) {
  std::vector<Shape> all;
  for (const ibv_qp_type type : types) {
    for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; ++mtu) {
      const std::uint32_t bytes = 128u << mtu;
      for (const std::uint32_t length : {0u, 1u, bytes - 1, bytes, bytes + 1, 3 * bytes + 7}) {
        all.push_back({type, static_cast<ibv_mtu>(mtu), length});
      }
    }
    all.push_back({type, IBV_MTU_4096, 60 << 10});
  }
  return all;
}

class EveryShape : public testing::TestWithParam<Shape> {
 protected:
  EndpointOptions endpoint() const { return {.type = GetParam().type, .receives = 4}; }
  ConnectOptions connection() const { return {.mtu = GetParam().mtu}; }
};

TEST_P(EveryShape, SendIsReceivedAsItWas) {
  const Pair pair(endpoint(), connection());
  const auto length = GetParam().length;
  fill(pair.a.memory(), 1);
  ASSERT_EQ(pair.b.receive(7, 0, 64 << 10), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 8, 0, length), 0);
  const ibv_wc received = pair.b.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.byte_len, length);
  EXPECT_EQ(received.qp_num, pair.b.qp()->qp_num);
  EXPECT_EQ(received.wc_flags & IBV_WC_WITH_IMM, 0u);
  const ibv_wc sent = pair.a.wait();
  ASSERT_OK(sent);
  EXPECT_EQ(sent.wr_id, 8u);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.qp_num, pair.a.qp()->qp_num);
  EXPECT_EQ(difference(pair.b.memory().first(length), 1), std::nullopt);
  EXPECT_TRUE(length == pair.b.memory().size() || pair.b.memory()[length] == std::byte{0});
}

TEST_P(EveryShape, WriteWithImmediateTellsTheLength) {
  const Pair pair(endpoint(), connection());
  const auto length = GetParam().length;
  fill(pair.a.memory(), 2);
  ASSERT_EQ(pair.b.receive(7, 0, 0), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE_WITH_IMM, 8, 0, length,
                        [&](ibv_send_wr& request) {
                          to(pair.b, 64)(request);
                          request.imm_data = kImmediate;
                        }),
            0);
  const ibv_wc received = pair.b.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(received.byte_len, length);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(received.imm_data, kImmediate);
  const ibv_wc sent = pair.a.wait();
  ASSERT_OK(sent);
  EXPECT_EQ(sent.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(difference(pair.b.memory().subspan(64, length), 2), std::nullopt);
  EXPECT_EQ(pair.b.memory()[63], std::byte{0});
  EXPECT_EQ(pair.b.memory()[64 + length], std::byte{0});
}

class EveryReliableShape : public EveryShape {};  // UC has no READ.

TEST_P(EveryReliableShape, ReadFetchesThePeersBytes) {
  const Pair pair(endpoint(), connection());
  const auto length = GetParam().length;
  fill(pair.b.memory(), 3);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_READ, 9, 0, length, to(pair.b)), 0);
  const ibv_wc read = pair.a.wait();
  ASSERT_OK(read);
  EXPECT_EQ(read.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(read.byte_len, length);
  EXPECT_EQ(difference(pair.a.memory().first(length), 3), std::nullopt);
  EXPECT_EQ(pair.a.memory()[length], std::byte{0});
}

INSTANTIATE_TEST_SUITE_P(Connected, EveryShape,
                         testing::ValuesIn(shapes({IBV_QPT_RC, IBV_QPT_UC})));
INSTANTIATE_TEST_SUITE_P(Connected, EveryReliableShape, testing::ValuesIn(shapes({IBV_QPT_RC})));

class EveryService : public testing::TestWithParam<ibv_qp_type> {};
INSTANTIATE_TEST_SUITE_P(Connected, EveryService, testing::Values(IBV_QPT_RC, IBV_QPT_UC));

TEST_P(EveryService, SendWithImmediate) {
  const Pair pair({.type = GetParam()});
  fill(pair.a.memory().first(10), 4);
  ASSERT_EQ(pair.b.receive(1, 0, 10), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND_WITH_IMM, 2, 0, 10,
                        [](ibv_send_wr& request) { request.imm_data = kImmediate; }),
            0);
  const ibv_wc received = pair.b.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.imm_data, kImmediate);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0u);
  EXPECT_EQ(difference(pair.b.memory().first(10), 4), std::nullopt);
}

TEST_P(EveryService, WriteIsOrderedBeforeTheSendAfterIt) {
  const Pair pair({.type = GetParam()});
  fill(pair.a.memory().first(30'000), 5);
  ASSERT_EQ(pair.b.receive(1, 60'000, 1), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 2, 0, 30'000, to(pair.b)), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 3, 0, 1), 0);
  ASSERT_OK(pair.b.wait());
  EXPECT_EQ(difference(pair.b.memory().first(30'000), 5), std::nullopt);
  EXPECT_EQ(pair.a.wait().wr_id, 2u);
  EXPECT_EQ(pair.a.wait().wr_id, 3u);
}

TEST_P(EveryService, GatherAndScatterAcrossSegments) {
  const Pair pair({.type = GetParam()}, {.mtu = IBV_MTU_256});
  fill(pair.a.memory().first(1000), 6);
  ASSERT_EQ(pair.b.receive(1, {pair.b.segment(0, 1), pair.b.segment(2000, 499),
                               pair.b.segment(5000, 0), pair.b.segment(3000, 600)}),
            0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(pair.a.post(request, {pair.a.segment(0, 300), pair.a.segment(300, 0),
                                  pair.a.segment(300, 1), pair.a.segment(301, 699)}),
            0);
  const ibv_wc received = pair.b.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.byte_len, 1000u);
  std::vector<std::byte> whole(pair.b.memory().begin(), pair.b.memory().begin() + 1);
  const auto append = [&](std::size_t offset, std::size_t length) {
    const auto part = pair.b.memory().subspan(offset, length);
    whole.insert(whole.end(), part.begin(), part.end());
  };
  append(2000, 499);
  append(3000, 500);
  EXPECT_EQ(difference(whole, 6), std::nullopt);
}

TEST_P(EveryService, InlineBytesAreCopiedWhenPosted) {
  const Pair pair({.type = GetParam()});
  std::vector<std::byte> stack(64);  // No region covers it.
  fill(stack, 7);
  ASSERT_EQ(pair.b.receive(1, 0, 64), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
  ASSERT_EQ(pair.a.post(
                request,
                {{.addr = reinterpret_cast<std::uint64_t>(stack.data()), .length = 64, .lkey = 0}}),
            0);
  std::fill(stack.begin(), stack.end(), std::byte{0});
  ASSERT_OK(pair.b.wait());
  EXPECT_EQ(difference(pair.b.memory().first(64), 7), std::nullopt);
}

TEST_P(EveryService, UnsignaledRequestsCompleteSilently) {
  const Pair pair({.type = GetParam()});
  ibv_send_wr silent{};
  silent.opcode = IBV_WR_RDMA_WRITE;
  to(pair.b)(silent);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(pair.a.post(silent, {pair.a.segment(0, 100)}), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 42, 0, 8, to(pair.b)), 0);
  EXPECT_EQ(pair.a.wait().wr_id, 42u);
  EXPECT_EQ(pair.a.poll(), std::nullopt);
}

TEST_P(EveryService, BothGidsOfTheNodeCarryTraffic) {
  for (const std::uint8_t index : kGidIndexes) {
    const Pair pair({.type = GetParam()}, {.gid_index = index});
    ASSERT_EQ(pair.b.receive(1, 0, 100), 0);
    ASSERT_EQ(pair.a.post(IBV_WR_SEND, 2, 0, 100), 0);
    ASSERT_OK(pair.b.wait());
    ASSERT_OK(pair.a.wait());
  }
}

TEST_P(EveryService, AListOfRequestsIsPostedInOrder) {
  const Pair pair({.type = GetParam()});
  ibv_sge segments[3];
  ibv_send_wr requests[3] = {};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(pair.b.receive(10 + i, 0, 10), 0);
    segments[i] = pair.a.segment(0, static_cast<std::uint32_t>(i));
    requests[i].wr_id = 20 + i;
    requests[i].opcode = IBV_WR_SEND;
    requests[i].send_flags = IBV_SEND_SIGNALED;
    requests[i].sg_list = &segments[i];
    requests[i].num_sge = 1;
    requests[i].next = i < 2 ? &requests[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(pair.a.qp(), requests, &bad), 0);
  for (unsigned i = 0; i < 3; ++i) {
    const ibv_wc received = pair.b.wait();
    ASSERT_OK(received);
    EXPECT_EQ(received.wr_id, 10 + i);
    EXPECT_EQ(received.byte_len, i);
    EXPECT_EQ(pair.a.wait().wr_id, 20 + i);
  }
}

TEST(ReliableConnection, CompareAndSwapReturnsTheOldValue) {
  const Pair pair;
  auto* const target = reinterpret_cast<std::uint64_t*>(pair.b.memory().data());
  auto* const result = reinterpret_cast<std::uint64_t*>(pair.a.memory().data());
  *target = 5;
  for (const auto& [compare, before, after] :
       {std::tuple{5, 5, 9}, std::tuple{5, 9, 9}, std::tuple{9, 9, 9}}) {
    ASSERT_EQ(pair.a.post(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 0, 8,
                          [&, expected = compare](ibv_send_wr& request) {
                            to(pair.b)(request);
                            request.wr.atomic.compare_add = expected;
                            request.wr.atomic.swap = 9;
                          }),
              0);
    const ibv_wc done = pair.a.wait();
    ASSERT_OK(done);
    EXPECT_EQ(done.opcode, IBV_WC_COMP_SWAP);
    EXPECT_EQ(*result, static_cast<std::uint64_t>(before));
    EXPECT_EQ(*target, static_cast<std::uint64_t>(after));
  }
}

TEST(ReliableConnection, FetchAndAddWraps) {
  const Pair pair;
  auto* const target = reinterpret_cast<std::uint64_t*>(pair.b.memory().data() + 16);
  auto* const result = reinterpret_cast<std::uint64_t*>(pair.a.memory().data());
  *target = ~std::uint64_t{0};
  ASSERT_EQ(pair.a.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8,
                        [&](ibv_send_wr& request) {
                          to(pair.b, 16)(request);
                          request.wr.atomic.compare_add = 3;
                        }),
            0);
  const ibv_wc done = pair.a.wait();
  ASSERT_OK(done);
  EXPECT_EQ(done.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(*result, ~std::uint64_t{0});
  EXPECT_EQ(*target, 2u);
}

TEST(ReliableConnection, AReceiveThatComesLateIsWaitedFor) {
  const Pair pair;
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 1, 0, 4), 0);
  EXPECT_EQ(pair.a.poll(100), std::nullopt);  // RNR NAKs are exchanged meanwhile.
  ASSERT_EQ(pair.b.receive(2, 0, 4), 0);
  ASSERT_OK(pair.b.wait());
  ASSERT_OK(pair.a.wait());
}

TEST(ReliableConnection, ManyRequestsOfAllKindsInFlight) {
  const Pair pair({.completions = 256, .sends = 64, .receives = 64, .memory_bytes = 256 << 10});
  fill(pair.a.memory().first(128 << 10), 8);
  fill(pair.b.memory().subspan(128 << 10), 9);
  for (unsigned i = 0; i < 16; ++i) {
    const std::size_t offset = std::size_t{i} << 13;
    ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 2 * i, offset, 8 << 10, to(pair.b, offset)), 0);
    ASSERT_EQ(pair.a.post(IBV_WR_RDMA_READ, 2 * i + 1, (128 << 10) + offset, 8 << 10,
                          to(pair.b, (128 << 10) + offset)),
              0);
  }
  for (unsigned i = 0; i < 32; ++i) {
    const ibv_wc done = pair.a.wait();
    ASSERT_OK(done);
    EXPECT_EQ(done.wr_id, i);
  }
  EXPECT_EQ(difference(pair.b.memory().first(128 << 10), 8), std::nullopt);
  EXPECT_EQ(difference(pair.a.memory().subspan(128 << 10), 9), std::nullopt);
}

TEST(ReliableConnection, MessageOfEightMebibytes) {
  constexpr std::uint32_t kLength = 8 << 20;
  const Pair pair({.memory_bytes = kLength}, {.mtu = IBV_MTU_4096});
  fill(pair.a.memory(), 10);
  ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, kLength, to(pair.b)), 0);
  ASSERT_OK(pair.a.wait());
  EXPECT_EQ(difference(pair.b.memory(), 10), std::nullopt);
}

TEST(MemoryRegion, AddressesCountFromTheIovaItWasRegisteredWith) {
  const Pair pair;
  for (const auto& [iova, access] :
       {std::pair{std::uint64_t{0x7000}, kAllAccess},
        std::pair{std::uint64_t{0}, kAllAccess | IBV_ACCESS_ZERO_BASED}}) {
    const Owned<ibv_mr> region(ibv_reg_mr_iova(pair.host.pd(), pair.b.memory().data(), 4096, iova,
                                               static_cast<unsigned>(access)));
    ASSERT_NE(region, nullptr);
    fill(pair.a.memory().first(100), static_cast<unsigned>(iova));
    ASSERT_EQ(pair.a.post(IBV_WR_RDMA_WRITE, 1, 0, 100,
                          [&, base = iova](ibv_send_wr& request) {
                            request.wr.rdma.remote_addr = base + 50;
                            request.wr.rdma.rkey = region->rkey;
                          }),
              0);
    ASSERT_OK(pair.a.wait());
    EXPECT_EQ(difference(pair.b.memory().subspan(50, 100), static_cast<unsigned>(iova)),
              std::nullopt);
  }
}

}  // namespace
}  // namespace verbs_test
