#include "ulp/rdma/infiniband/datagram_port.h"

#include <cstring>

#include <gtest/gtest.h>

#include "ulp/rdma/fake/fake_adapter_for_test.h"

namespace verbatim::ulp::rdma {
namespace {

constexpr std::uint32_t kSends = 40, kReceives = 4, kGrh = 40;

/// A port whose requests end when the test says so.
class DatagramPortTest : public testing::Test {
 protected:
  ~DatagramPortTest() override {
    EXPECT_EQ(fake.violations(), std::vector<std::string>());
    port.reset();
    completions.reset();
    device.reset();
    EXPECT_EQ(fake.objects_left(), "");
  }
  FakeQueuePair& queue_pair() { return *fake.queue_pairs.back(); }
  /// Passes all completions on. Returns how many datagrams came.
  std::vector<DatagramPort::Arrived> take() {
    std::vector<DatagramPort::Arrived> all;
    for (const Ended& ended : completions->poll()) {
      if (const auto arrived = port->on_ended(ended)) all.push_back(*arrived);
    }
    return all;
  }
  void end_sends(std::size_t count, ibv_wc_status status = IBV_WC_SUCCESS) {
    for (std::size_t i = 0; i < count; ++i) fake.complete(queue_pair(), status);
    take();
  }
  /// A receive ends: `text` has come, behind a GRH or what stands in its place.
  void arrive(std::string_view text, bool has_grh, ibv_wc_status status = IBV_WC_SUCCESS) {
    const FakeReceive receive = queue_pair().receives.front();
    queue_pair().receives.pop_front();
    auto* const memory = reinterpret_cast<std::byte*>(receive.slice.addr);
    std::memset(memory, 0x11, kGrh);
    std::memcpy(memory + kGrh, text.data(), text.size());
    fake.push(static_cast<FakeCompletionQueue&>(*queue_pair().recv_cq),
              {.wr_id = receive.id,
               .status = status,
               .opcode = IBV_WC_RECV,
               .byte_len = static_cast<std::uint32_t>(kGrh + text.size()),
               .qp_num = queue_pair().qp_num,
               .src_qp = 0x99,
               .wc_flags = has_grh ? unsigned{IBV_WC_GRH} : 0u,
               .slid = 7});
  }
  std::vector<DatagramPort::Datagram> datagrams(std::size_t count, ByteSpan header = {}) {
    const DestinationId to = port->open({.dlid = Lid{9}}).value();
    return std::vector(count, DatagramPort::Datagram{.to = to, .qpn = Qpn(5), .header = header});
  }

  FakeAdapter fake{1, {}};
  std::unique_ptr<Device> device = *Device::open("");
  std::unique_ptr<Completions> completions = *Completions::create(*device, 64);
  std::unique_ptr<DatagramPort> port =
      *DatagramPort::create(*device, *completions, 3, {.sends = kSends, .receives = kReceives});
};

TEST_F(DatagramPortTest, EqualPathsShareAHandle) {
  const auto one = port->open({.dlid = Lid{9}}).value();
  const auto same = port->open({.dlid = Lid{9}}).value();
  const auto other = port->open({.dlid = Lid{9}, .service_level = 2}).value();
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
  port->close(one);
  port->close(same);
  EXPECT_EQ(port->open({.dlid = Lid{10}}).value(), one);  // Its number is free again.
}

TEST_F(DatagramPortTest, PostsWhatFitsAndCountsWhatHasLeft) {
  EXPECT_EQ(port->send(datagrams(kSends + 5)), kSends);
  EXPECT_EQ(fake.post_calls, 2);  // Chains of 32.
  EXPECT_EQ(port->send(datagrams(1)), 0u);
  end_sends(31);
  EXPECT_EQ(port->ended(), 0u);  // The last one of a chain says it for all.
  end_sends(1);
  EXPECT_EQ(port->ended(), 32u);
  EXPECT_EQ(port->send(datagrams(40)), 32u);
  end_sends(40);
  EXPECT_EQ(port->ended(), port->posted());
}

TEST_F(DatagramPortTest, HeaderIsCopied) {
  std::array<std::byte, 64> header{};
  header.fill(std::byte{0x22});
  auto one = datagrams(1, header);
  std::array<std::byte, 100> memory{};
  one[0].payload = {.data = memory.data(), .bytes = 100};
  EXPECT_EQ(port->send(one), 1u);
  header.fill(std::byte{0});
  const auto& slices = queue_pair().posted.front().slices;
  ASSERT_EQ(slices.size(), 2u);  // Together longer than what is sent inline.
  EXPECT_EQ(*reinterpret_cast<const std::byte*>(slices[0].addr), std::byte{0x22});
  EXPECT_EQ(slices[1].addr, reinterpret_cast<std::uint64_t>(memory.data()));
  one[0].payload = {};
  EXPECT_EQ(port->send(one), 1u);
  EXPECT_EQ(queue_pair().posted.back().inline_bytes.size(), header.size());
}

TEST_F(DatagramPortTest, ArrivesWithItsSourceAndIsPostedAgain) {
  arrive("hello", true);
  arrive("you", false);
  const auto arrived = take();
  ASSERT_EQ(arrived.size(), 2u);
  EXPECT_EQ(std::memcmp(arrived[0].bytes.data(), "hello", 5), 0);
  EXPECT_EQ(arrived[0].bytes.size(), 5u);
  EXPECT_EQ(arrived[0].source, Qpn(0x99));
  EXPECT_EQ(arrived[0].source_lid, Lid{7});
  EXPECT_EQ(arrived[0].source_gid->bytes[0], 0x11);
  EXPECT_FALSE(arrived[1].source_gid);
  EXPECT_EQ(queue_pair().receives.size(), kReceives - 2);
  for (const auto& one : arrived) port->post_again({&one.buffer, 1});
  EXPECT_EQ(queue_pair().receives.size(), kReceives);
}

TEST_F(DatagramPortTest, FailedReceiveIsPostedAgainAndAFlushedOneIsNot) {
  arrive("", false, IBV_WC_LOC_LEN_ERR);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(queue_pair().receives.size(), kReceives);
  arrive("", false, IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(queue_pair().receives.size(), kReceives - 1);
}

/// IBA 10.3.1.7: the queue of sends stops, and goes on from SQE to RTS.
TEST_F(DatagramPortTest, FailedSendStopsNothing) {
  port->send(datagrams(2));
  queue_pair().at = IBV_QPS_SQE;
  fake.push(static_cast<FakeCompletionQueue&>(*queue_pair().send_cq),
            {.wr_id = queue_pair().posted.front().id, .status = IBV_WC_LOC_QP_OP_ERR});
  queue_pair().posted.pop_front();
  take();
  EXPECT_EQ(queue_pair().at, IBV_QPS_RTS);
  EXPECT_EQ(port->ended(), 1u);
  end_sends(1);
  EXPECT_EQ(port->ended(), 2u);
}

}  // namespace
}  // namespace verbatim::ulp::rdma
