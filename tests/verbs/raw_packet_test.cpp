#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <unistd.h>

#include "test_util.h"

/// Raw packet queue pairs and flow rules. Nodes on the loopback interface share one segment per
/// machine, and tests run in parallel, so each process has its own MAC addresses.
namespace verbs_test {
namespace {

using Mac = std::array<std::uint8_t, 6>;

Mac mac(std::uint8_t last, std::uint8_t first = 2) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  return {first,
          0xee,
          static_cast<std::uint8_t>(pid >> 16),
          static_cast<std::uint8_t>(pid >> 8),
          static_cast<std::uint8_t>(pid),
          last};
}
Mac group_mac(std::uint8_t last) { return mac(last, 3); }

struct DestroyFlow {
  void operator()(ibv_flow* flow) const { EXPECT_EQ(ibv_destroy_flow(flow), 0); }
};
using Flow = std::unique_ptr<ibv_flow, DestroyFlow>;

/// Rules as programs lay them out: the specifications follow the attributes.
struct Rule {
  ibv_flow_attr attributes{.comp_mask = 0,
                           .type = IBV_FLOW_ATTR_NORMAL,
                           .size = sizeof(ibv_flow_attr),
                           .priority = 0,
                           .num_of_specs = 0,
                           .port = 1,
                           .flags = 0};
  std::byte specifications[256]{};

  template <typename T>
  Rule& add(T specification) {
    specification.size = sizeof specification;
    std::memcpy(specifications + attributes.size - sizeof attributes, &specification,
                sizeof specification);
    attributes.size = static_cast<std::uint16_t>(attributes.size + sizeof specification);
    ++attributes.num_of_specs;
    return *this;
  }
  Rule& to(const Mac& destination) {
    ibv_flow_spec_eth ethernet{};
    ethernet.type = IBV_FLOW_SPEC_ETH;
    std::ranges::copy(destination, ethernet.val.dst_mac);
    std::ranges::fill(ethernet.mask.dst_mac, 0xff);
    return add(ethernet);
  }
  Rule& udp_to(std::uint16_t port) {
    ibv_flow_spec_tcp_udp udp{};
    udp.type = IBV_FLOW_SPEC_UDP;
    udp.val.dst_port = htons(port);
    udp.mask.dst_port = 0xffff;
    return add(udp);
  }
  Rule& count(ibv_counters* counters) {
    return add(ibv_flow_spec_counter_action{
        .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = 0, .counters = counters});
  }
  Rule& tag(std::uint32_t id) {
    return add(ibv_flow_spec_action_tag{.type = IBV_FLOW_SPEC_ACTION_TAG, .size = 0, .tag_id = id});
  }
  ibv_flow* create(const Endpoint& end) { return ibv_create_flow(end.qp(), &attributes); }
};

struct RawEnd : Endpoint {
  explicit RawEnd(const OpenDevice& host) : Endpoint(host, {.type = IBV_QPT_RAW_PACKET}) {
    connect({});
  }

  /// Writes, at the memory's start, a UDP datagram of four bytes to a port, or a frame of an
  /// unknown type.
  std::uint32_t write_frame(const Mac& destination, std::uint16_t udp_port = 0) const {
    static constexpr std::uint8_t kIpv4[] = {0x45, 0, 0, 32, 0, 0, 0x40, 0,   64,  17, 0,
                                             0,    1, 2, 3,  4, 5, 6,    7,   8,   4,  0,
                                             0,    0, 0, 12, 0, 0, 'p',  'a', 'y', '!'};
    auto* const bytes = reinterpret_cast<std::uint8_t*>(memory().data());
    std::ranges::copy(destination, bytes);
    std::ranges::copy(mac(0x99), bytes + 6);
    bytes[12] = udp_port != 0 ? 0x08 : 0x12;
    bytes[13] = udp_port != 0 ? 0x00 : 0x34;
    std::ranges::copy(kIpv4, bytes + 14);
    bytes[14 + 22] = static_cast<std::uint8_t>(udp_port >> 8);
    bytes[14 + 23] = static_cast<std::uint8_t>(udp_port);
    return 14 + sizeof kIpv4;
  }
  void send(const Mac& destination, std::uint16_t udp_port = 0, unsigned flags = 0) const {
    const std::uint32_t length = write_frame(destination, udp_port);
    ASSERT_EQ(post(IBV_WR_SEND, 7, 0, length,
                   [flags](ibv_send_wr& request) { request.send_flags |= flags; }),
              0);
    ASSERT_EQ(wait().status, IBV_WC_SUCCESS);
  }
};

struct RawPackets : testing::Test {
  OpenDevice host;
  RawEnd a{host};
  RawEnd b{host};
};

TEST_F(RawPackets, FrameArrivesAsItWasSent) {
  const Flow flow(Rule().to(group_mac(1)).create(b));
  ASSERT_NE(flow, nullptr);
  ASSERT_EQ(b.receive(3, 0, 2000), 0);
  a.send(group_mac(1));
  const ibv_wc received = b.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.opcode, IBV_WC_RECV);
  EXPECT_EQ(received.wr_id, 3u);
  EXPECT_EQ(received.qp_num, b.qp()->qp_num);
  ASSERT_EQ(received.byte_len, 46u);
  EXPECT_TRUE(std::ranges::equal(a.memory().first(46), b.memory().first(46)));
}

TEST(RawPacket, FrameToAnotherNodeAndBack) {
  constexpr std::uint8_t kHere = 2;
  constexpr std::uint8_t kThere = 3;
  OtherNode other([](const Pipe& pipe) {
    const OpenDevice there_host;
    const RawEnd there(there_host);
    const Flow flow(Rule().to(pipe.receive<Mac>()).create(there));
    ASSERT_EQ(there.receive(1, 0, 2000), 0);
    pipe.send(true);
    ASSERT_OK(there.wait());
    there.send(pipe.receive<Mac>());
  });
  const OpenDevice host;
  const RawEnd here(host);
  const Flow flow(Rule().to(mac(kHere)).create(here));
  ASSERT_EQ(here.receive(1, 0, 2000), 0);
  other.pipe().send(mac(kThere));
  ASSERT_TRUE(other.pipe().receive<bool>());
  here.send(mac(kThere));
  other.pipe().send(mac(kHere));
  ASSERT_OK(here.wait());
}

TEST_F(RawPackets, RulesDivideByPort) {
  const Flow to_a(Rule().to(group_mac(4)).udp_to(1000).create(a));
  const Flow to_b(Rule().to(group_mac(4)).udp_to(2000).create(b));
  const RawEnd sender(host);
  for (const RawEnd* end : {&a, &b}) ASSERT_EQ(end->receive(1, 100, 2000), 0);
  sender.send(group_mac(4), 3000);  // No rule matches it.
  sender.send(group_mac(4), 2000);
  ASSERT_OK(b.wait());
  EXPECT_FALSE(a.poll());
  sender.send(group_mac(4), 1000);
  ASSERT_OK(a.wait());
}

TEST_F(RawPackets, LowerPriorityNumberWins) {
  Rule first;
  first.to(group_mac(5));
  Rule second = first;
  second.attributes.priority = 1;
  const Flow low(second.create(a));
  Flow high(first.create(b));
  const RawEnd sender(host);
  for (const RawEnd* end : {&a, &b}) ASSERT_EQ(end->receive(1, 100, 2000), 0);
  sender.send(group_mac(5));
  ASSERT_OK(b.wait());
  EXPECT_FALSE(a.poll(100));
  high.reset();
  sender.send(group_mac(5));
  ASSERT_OK(a.wait());
}

TEST_F(RawPackets, ChecksumsAreFilledInAndJudged) {
  const Flow flow(Rule().to(group_mac(6)).create(b));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(b.receive(1, 0, 2000), 0);
  a.send(group_mac(6), 2000);  // The IPv4 checksum is zero: wrong.
  EXPECT_EQ(b.wait().wc_flags & IBV_WC_IP_CSUM_OK, 0u);
  a.send(group_mac(6), 2000, IBV_SEND_IP_CSUM);
  EXPECT_NE(b.wait().wc_flags & IBV_WC_IP_CSUM_OK, 0u);
  EXPECT_NE(b.memory()[14 + 10], std::byte{0});
}

TEST_F(RawPackets, GroupIsJoinedByItsMac) {
  ibv_gid gid{};
  std::ranges::copy(group_mac(7), gid.raw + 10);
  ASSERT_EQ(ibv_attach_mcast(b.qp(), &gid, 0), 0);
  ASSERT_EQ(b.receive(1, 0, 2000), 0);
  a.send(group_mac(7));
  ASSERT_OK(b.wait());
  EXPECT_EQ(ibv_detach_mcast(b.qp(), &gid, 0), 0);
  EXPECT_EQ(ibv_detach_mcast(b.qp(), &gid, 0), EINVAL);
  std::ranges::copy(mac(7), gid.raw + 10);
  EXPECT_EQ(ibv_attach_mcast(b.qp(), &gid, 0), EINVAL);
}

TEST_F(RawPackets, ReceiveThatIsTooShortIsAnError) {
  const Flow flow(Rule().to(group_mac(8)).create(b));
  ASSERT_EQ(b.receive(1, 0, 45), 0);
  a.send(group_mac(8));
  EXPECT_EQ(b.wait().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(b.state(), IBV_QPS_ERR);
}

TEST_F(RawPackets, FrameThatEthernetDoesNotCarryIsAnError) {
  ASSERT_EQ(a.post(IBV_WR_SEND, 1, 0, 13), 0);
  EXPECT_EQ(a.wait().status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(a.state(), IBV_QPS_SQE);
  ASSERT_EQ(b.post(IBV_WR_SEND, 1, 0, 20'000), 0);
  EXPECT_EQ(b.wait().status, IBV_WC_LOC_LEN_ERR);
}

TEST_F(RawPackets, OnlySendsArePosted) {
  EXPECT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, 0, 64), EINVAL);
  EXPECT_EQ(a.post(IBV_WR_SEND_WITH_IMM, 1, 0, 64), EINVAL);
}

TEST_F(RawPackets, QueuePairWithRulesStays) {
  Flow flow(Rule().to(group_mac(9)).create(b));
  EXPECT_EQ(ibv_destroy_qp(b.qp()), EBUSY);
}

TEST_F(RawPackets, WrongRulesAreRefused) {
  const auto refused = [&](Rule rule) {
    errno = 0;
    const Flow flow(rule.create(a));
    EXPECT_EQ(flow, nullptr);
    return errno;
  };
  Rule port;
  port.attributes.port = 2;
  EXPECT_EQ(refused(port), EINVAL);
  Rule mask;
  mask.attributes.comp_mask = 1;
  EXPECT_EQ(refused(mask), EINVAL);
  Rule twice;
  EXPECT_EQ(refused(twice.to(mac(1)).to(mac(2))), EINVAL);
  Rule egress;
  egress.attributes.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
  EXPECT_EQ(refused(egress), EOPNOTSUPP);
  Rule sniffer;
  sniffer.attributes.type = IBV_FLOW_ATTR_SNIFFER;
  EXPECT_EQ(refused(sniffer.to(mac(1))), EINVAL);
  Rule size;
  size.to(mac(1)).specifications[4] = std::byte{3};
  EXPECT_EQ(refused(size), EINVAL);

  const Endpoint connected(host);
  errno = 0;
  EXPECT_EQ(Rule().to(mac(1)).create(connected), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(RawPackets, CountersCountWhatTheirRulesTake) {
  ibv_counters_init_attr none{};
  ibv_counters* const counters = ibv_create_counters(host.context(), &none);
  ASSERT_NE(counters, nullptr);
  ibv_counter_attach_attr bytes{.counter_desc = IBV_COUNTER_BYTES, .index = 0, .comp_mask = 0};
  ibv_counter_attach_attr packets{.counter_desc = IBV_COUNTER_PACKETS, .index = 2, .comp_mask = 0};
  ASSERT_EQ(ibv_attach_counters_point_flow(counters, &bytes, nullptr), 0);
  ASSERT_EQ(ibv_attach_counters_point_flow(counters, &packets, nullptr), 0);
  std::uint64_t values[3] = {9, 9, 9};
  {
    const Flow one(Rule().to(group_mac(5)).udp_to(1000).count(counters).create(a));
    const Flow two(Rule().to(group_mac(5)).udp_to(2000).count(counters).create(a));
    EXPECT_EQ(ibv_destroy_counters(counters), EBUSY);
    EXPECT_EQ(ibv_attach_counters_point_flow(counters, &bytes, one.get()), EOPNOTSUPP);
    const RawEnd sender(host);
    for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(a.receive(i, 100, 2000), 0);
    for (const std::uint16_t port : std::initializer_list<std::uint16_t>{1000, 2000, 3000, 1000}) {
      sender.send(group_mac(5), port);
    }
    std::uint64_t received = 0;
    for (int i = 0; i < 3; ++i) received += a.wait().byte_len;
    ASSERT_EQ(ibv_read_counters(counters, values, 3, IBV_READ_COUNTERS_ATTR_PREFER_CACHED), 0);
    EXPECT_EQ(values[0], received);
    EXPECT_EQ(values[1], 0u);
    EXPECT_EQ(values[2], 3u);
    EXPECT_EQ(ibv_read_counters(counters, values, 2, 0), EINVAL);
  }
  EXPECT_EQ(ibv_destroy_counters(counters), 0);
}

TEST_F(RawPackets, TagOfTheRuleIsRead) {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = 4;
  wanted.wc_flags = IBV_WC_EX_WITH_FLOW_TAG;
  ibv_cq_ex* const cq = ibv_create_cq_ex(host.context(), &wanted);
  ASSERT_NE(cq, nullptr);
  {
    EndpointOptions options{.type = IBV_QPT_RAW_PACKET};
    options.shared_cq = ibv_cq_ex_to_cq(cq);
    const Endpoint end(host, options);
    end.connect({});
    const Flow flow(Rule().to(group_mac(6)).tag(0x1234).create(end));
    ASSERT_EQ(end.receive(1, 100, 2000), 0);
    b.send(group_mac(6));
    ibv_poll_cq_attr attributes{};
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ibv_start_poll(cq, &attributes) != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
    }
    EXPECT_EQ(ibv_wc_read_flow_tag(cq), 0x1234u);
    ibv_end_poll(cq);
  }
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(RawPackets, DeviceSaysSo) {
  ibv_device_attr_ex attributes;
  ASSERT_EQ(ibv_query_device_ex(host.context(), nullptr, &attributes), 0);
  EXPECT_GT(attributes.orig_attr.max_raw_ethy_qp, 0);
  EXPECT_NE(attributes.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING, 0u);
  EXPECT_NE(attributes.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM, 0u);
}

}  // namespace
}  // namespace verbs_test
