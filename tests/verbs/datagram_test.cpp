#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "test_util.h"

/// UD: addresses, GRHs, Q_Keys, multicast.
namespace verbs_test {
namespace {

constexpr std::uint32_t kGrhBytes = 40;

ibv_ah_attr route_to(const ibv_gid& gid, std::uint8_t own_gid_index = 1) {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh = {.dgid = gid,
                    .flow_label = 0,
                    .sgid_index = own_gid_index,
                    .hop_limit = 64,
                    .traffic_class = 0};
  return attributes;
}

/// Two datagram queue pairs in RTS, and an address handle from a to b.
struct Datagrams {
  explicit Datagrams(std::uint8_t gid_index = 1,
                     const EndpointOptions& options = {.type = IBV_QPT_UD})
      : a(host, options), b(host, options) {
    for (const Endpoint* end : {&a, &b}) end->connect({});
    ibv_ah_attr attributes = route_to(host.gid(gid_index), gid_index);
    handle.reset(ibv_create_ah(host.pd(), &attributes));
    EXPECT_NE(handle, nullptr);
  }
  std::function<void(ibv_send_wr&)> to_b(std::uint32_t qkey = kQKey) const {
    return [this, qkey](ibv_send_wr& request) {
      request.wr.ud = {.ah = handle.get(), .remote_qpn = b.qp()->qp_num, .remote_qkey = qkey};
    };
  }
  OpenDevice host;
  Endpoint a;
  Endpoint b;
  Owned<ibv_ah> handle;
};

TEST(Datagram, ArrivesBehindTheRoomForItsGrh) {
  for (const std::uint8_t gid_index : kGidIndexes) {
    const Datagrams ud(gid_index);
    fill(ud.a.memory().first(1000), 1);
    ASSERT_EQ(ud.b.receive(1, 0, 1000 + kGrhBytes), 0);
    ASSERT_EQ(ud.a.post(IBV_WR_SEND, 2, 0, 1000, ud.to_b()), 0);
    const ibv_wc received = ud.b.wait();
    ASSERT_OK(received);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.byte_len, 1000 + kGrhBytes);
    EXPECT_EQ(received.src_qp, ud.a.qp()->qp_num);
    EXPECT_NE(received.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(received.sl, 0xa);  // RoCE v2 over IPv4.
    EXPECT_EQ(difference(ud.b.memory().subspan(kGrhBytes, 1000), 1), std::nullopt);
    ASSERT_OK(ud.a.wait());
  }
}

/// As a card, which has pinned the pages. UCX unmaps its buffers before it deregisters them.
TEST(Datagram, IsTakenAlthoughItsMemoryIsUnmapped) {
  const char* const path = std::getenv("VERBATIM_PATH");
  if (path == nullptr || std::string_view(path) != "wire") {
    GTEST_SKIP() << "on the direct path the sender writes into the memory itself";
  }
  const OpenDevice host;
  const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(host.context()));
  const Endpoint a(host, {.type = IBV_QPT_UD});
  const Endpoint b(host, {.type = IBV_QPT_UD, .channel = channel.get()});
  for (const Endpoint* end : {&a, &b}) end->connect({});
  ibv_ah_attr attributes = route_to(host.gid(1));
  const Owned<ibv_ah> handle(ibv_create_ah(host.pd(), &attributes));
  constexpr std::uint32_t kBytes = 4096;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Owned<ibv_mr> region(ibv_reg_mr(host.pd(), memory, kBytes, IBV_ACCESS_LOCAL_WRITE));
  ASSERT_NE(region, nullptr);
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  ASSERT_EQ(b.receive(1, {{.addr = address, .length = kBytes, .lkey = region->lkey}}), 0);
  ASSERT_EQ(munmap(memory, kBytes), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.cq(), 0), 0);
  ASSERT_EQ(a.post(IBV_WR_SEND, 2, 0, 100,
                   [&](ibv_send_wr& request) {
                     request.wr.ud = {
                         .ah = handle.get(), .remote_qpn = b.qp()->qp_num, .remote_qkey = kQKey};
                   }),
            0);
  ibv_cq* told = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel.get(), &told, &context), 0);  // No thread polls meanwhile.
  ibv_ack_cq_events(told, 1);
  ASSERT_OK(b.wait());
}

TEST(Datagram, CarriesImmediateData) {
  const Datagrams ud;
  ASSERT_EQ(ud.b.receive(1, 0, 100), 0);
  ASSERT_EQ(ud.a.post(IBV_WR_SEND_WITH_IMM, 2, 0, 4,
                      [&](ibv_send_wr& request) {
                        ud.to_b()(request);
                        request.imm_data = 0xaabbccdd;
                      }),
            0);
  const ibv_wc received = ud.b.wait();
  ASSERT_OK(received);
  EXPECT_EQ(received.imm_data, 0xaabbccddu);
  EXPECT_NE(received.wc_flags & IBV_WC_WITH_IMM, 0u);
}

TEST(Datagram, IsAnsweredThroughItsCompletion) {
  for (const std::uint8_t gid_index : kGidIndexes) {
    const Datagrams ud(gid_index);
    ASSERT_EQ(ud.b.receive(1, 0, 100), 0);
    ASSERT_EQ(ud.a.receive(3, 0, 100), 0);
    ASSERT_EQ(ud.a.post(IBV_WR_SEND, 2, 0, 4, ud.to_b()), 0);
    ibv_wc received = ud.b.wait();
    ASSERT_OK(received);
    auto* const grh = reinterpret_cast<ibv_grh*>(ud.b.memory().data());
    ibv_ah_attr attributes{};
    ASSERT_EQ(ibv_init_ah_from_wc(ud.host.context(), 1, &received, grh, &attributes), 0);
    // On the loopback interface a link-local GID stands for an IPv4 address, which is what arrives.
    EXPECT_EQ(attributes.grh.sgid_index, 1);
    EXPECT_EQ(std::memcmp(&attributes.grh.dgid, ud.host.gid(1).raw, 16), 0);
    const Owned<ibv_ah> back(ibv_create_ah_from_wc(ud.host.pd(), &received, grh, 1));
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(ud.b.post(IBV_WR_SEND, 4, 50, 4,
                        [&](ibv_send_wr& request) {
                          request.wr.ud = {.ah = back.get(),
                                           .remote_qpn = received.src_qp,
                                           .remote_qkey = kQKey};
                        }),
              0);
    ASSERT_OK(ud.a.wait());  // Its send, then the answer: both complete in one queue.
    ASSERT_OK(ud.a.wait());
  }
}

TEST(Datagram, WithAnotherQKeyIsDropped) {
  const Datagrams ud;
  ASSERT_EQ(ud.b.receive(1, 0, 100), 0);
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 2, 0, 4, ud.to_b(kQKey + 1)), 0);
  ASSERT_OK(ud.a.wait());
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 3, 0, 8, ud.to_b()), 0);
  EXPECT_EQ(ud.b.wait().byte_len, 8 + kGrhBytes);  // The right one arrives first.
}

TEST(Datagram, WithTheControlledBitUsesTheQueuePairsQKey) {
  const Datagrams
      ud;  // IBA 10.2.5: a Q_Key with the highest bit set is replaced by the sender's own.
  ASSERT_EQ(ud.b.receive(1, 0, 100), 0);
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 2, 0, 4, ud.to_b(0x80000000)), 0);
  ASSERT_OK(ud.b.wait());
}

TEST(Datagram, LongerThanTheMtuFailsLocally) {
  const Datagrams ud;
  const std::uint32_t mtu = 128u << ud.host.active_mtu();
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 2, 0, mtu + 1, ud.to_b()), 0);
  EXPECT_EQ(ud.a.wait().status, IBV_WC_LOC_LEN_ERR);
}

TEST(Datagram, LocalErrorStopsTheSendQueueAlone) {
  const Datagrams ud;
  ASSERT_EQ(ud.a.receive(1, 0, 100), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  ud.to_b()(request);
  ibv_sge bad = ud.a.segment(0, 8);
  bad.lkey ^= 0x5a5a00;
  ASSERT_EQ(ud.a.post(request, {bad}), 0);
  EXPECT_EQ(ud.a.wait().status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(ud.a.state(), IBV_QPS_SQE);
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 3, 0, 8, ud.to_b()), 0);
  EXPECT_EQ(ud.a.wait().status, IBV_WC_WR_FLUSH_ERR);

  const ibv_sge good = ud.b.segment(0, 8);
  ibv_send_wr answer{};
  answer.opcode = IBV_WR_SEND;
  answer.wr.ud = {.ah = ud.handle.get(), .remote_qpn = ud.a.qp()->qp_num, .remote_qkey = kQKey};
  ASSERT_EQ(ud.b.post(answer, {good}), 0);
  ASSERT_OK(ud.a.wait());  // It still receives.

  ASSERT_EQ(ud.a.modify_state(IBV_QPS_RTS), 0);
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 4, 0, 8, ud.to_b()), 0);
  ASSERT_OK(ud.a.wait());
}

/// Posts a list of 40 datagrams; the one at `bad` (40: none) names memory without a valid key.
std::vector<ibv_wc_status> post_list(const Datagrams& ud, std::size_t bad) {
  constexpr std::size_t kCount = 40;
  std::array<ibv_send_wr, kCount> requests{};
  std::array<ibv_sge, kCount> segments;
  for (std::size_t i = 0; i < kCount; ++i) {
    segments[i] = ud.a.segment(i * 8, 8);
    if (i == bad) segments[i].lkey ^= 0x5a5a00;
    requests[i] = {.wr_id = i,
                   .next = i + 1 < kCount ? &requests[i + 1] : nullptr,
                   .sg_list = &segments[i],
                   .num_sge = 1,
                   .opcode = IBV_WR_SEND,
                   .send_flags = IBV_SEND_SIGNALED};
    ud.to_b()(requests[i]);
  }
  ibv_send_wr* refused = nullptr;
  EXPECT_EQ(ibv_post_send(ud.a.qp(), requests.data(), &refused), 0);
  std::vector<ibv_wc_status> ends;
  for (std::size_t i = 0; i < kCount; ++i) {
    const ibv_wc ended = ud.a.wait();
    EXPECT_EQ(ended.wr_id, i);
    ends.push_back(ended.status);
  }
  return ends;
}

TEST(Datagram, ListsArriveInOrder) {
  const Datagrams ud(1, {.type = IBV_QPT_UD, .sends = 64, .receives = 64});
  for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(ud.b.receive(i, i * 64, 64), 0);
  for (std::uint64_t i = 0; i < 40; ++i) std::memcpy(ud.a.memory().data() + i * 8, &i, sizeof i);
  for (const ibv_wc_status end : post_list(ud, 40)) EXPECT_EQ(end, IBV_WC_SUCCESS);
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_EQ(ud.b.wait().wr_id, i);
    std::uint64_t number = 0;
    std::memcpy(&number, ud.b.memory().data() + i * 64 + kGrhBytes, sizeof number);
    EXPECT_EQ(number, i);
  }
}

TEST(Datagram, OfAListWhatStandsBeforeTheBadOneIsSent) {
  const Datagrams ud(1, {.type = IBV_QPT_UD, .sends = 64, .receives = 64});
  for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(ud.b.receive(i, i * 64, 64), 0);
  const auto ends = post_list(ud, 21);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(ends[i], i < 21    ? IBV_WC_SUCCESS
                       : i == 21 ? IBV_WC_LOC_PROT_ERR
                                 : IBV_WC_WR_FLUSH_ERR);
  }
  for (std::uint64_t i = 0; i < 21; ++i) ASSERT_EQ(ud.b.wait().wr_id, i);
  EXPECT_EQ(ud.b.poll(100), std::nullopt);
}

TEST(Datagram, RoomForLessThanTheMessageIsALengthError) {
  const Datagrams ud;
  ASSERT_EQ(ud.b.receive(1, 0, kGrhBytes + 3), 0);
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 2, 0, 4, ud.to_b()), 0);
  const ibv_wc received = ud.b.wait();
  EXPECT_EQ(received.status, IBV_WC_LOC_LEN_ERR);
  ASSERT_OK(ud.a.wait());
}

TEST(Datagram, OtherOperationsAreRefused) {
  const Datagrams ud;
  EXPECT_EQ(ud.a.post(IBV_WR_RDMA_WRITE, 2, 0, 4, ud.to_b()), EINVAL);
}

TEST(AddressHandle, IsRefusedForWhatLeadsNowhere) {
  const OpenDevice host;
  const auto refused = [&](const std::function<void(ibv_ah_attr&)>& change) {
    ibv_ah_attr attributes = route_to(host.gid(1));
    change(attributes);
    errno = 0;
    return ibv_create_ah(host.pd(), &attributes) == nullptr && errno == EINVAL;
  };
  EXPECT_TRUE(refused([](ibv_ah_attr& a) { a.port_num = 2; }));
  EXPECT_TRUE(refused([](ibv_ah_attr& a) { a.is_global = 0; }));  // RoCE needs a GID.
  EXPECT_TRUE(refused([](ibv_ah_attr& a) { a.grh.sgid_index = 63; }));
  EXPECT_TRUE(refused([](ibv_ah_attr& a) { a.grh.dgid = {}; }));
}

/// Returns an address of 224.0.0.0/4 as a GID.
ibv_gid group(std::uint8_t last) {
  return {.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 7, 7, last}};
}

TEST(Multicast, ReachesMembersOfOtherNodes) {
  const ibv_gid gid = group(static_cast<std::uint8_t>(getpid()));
  OtherNode other([&gid](const Pipe& pipe) {
    const OpenDevice host;
    const Endpoint end(host, {.type = IBV_QPT_UD});
    end.connect({});
    ASSERT_EQ(ibv_attach_mcast(end.qp(), &gid, 0), 0);
    ASSERT_EQ(end.receive(1, 0, 100), 0);
    pipe.send(true);
    const ibv_wc received = end.wait();
    ASSERT_OK(received);
    EXPECT_EQ(received.byte_len, 20 + kGrhBytes);
    EXPECT_EQ(difference(end.memory().subspan(kGrhBytes, 20), 2), std::nullopt);
    EXPECT_EQ(ibv_detach_mcast(end.qp(), &gid, 0), 0);
    EXPECT_NE(ibv_detach_mcast(end.qp(), &gid, 0), 0);
  });
  const OpenDevice host;
  const Endpoint end(host, {.type = IBV_QPT_UD});
  end.connect({});
  ibv_ah_attr attributes = route_to(gid);
  const Owned<ibv_ah> handle(ibv_create_ah(host.pd(), &attributes));
  ASSERT_NE(handle, nullptr);
  fill(end.memory().first(20), 2);
  ASSERT_TRUE(other.pipe().receive<bool>());
  ASSERT_EQ(end.post(IBV_WR_SEND, 1, 0, 20,
                     [&](ibv_send_wr& request) {
                       request.wr.ud = {
                           .ah = handle.get(), .remote_qpn = 0xffffff, .remote_qkey = kQKey};
                     }),
            0);
  ASSERT_OK(end.wait());
}

TEST(Multicast, ReachesEachMemberOfOneNode) {
  const Datagrams ud;
  const ibv_gid gid = group(static_cast<std::uint8_t>(getpid()));
  const Endpoint third(ud.host, {.type = IBV_QPT_UD});
  third.connect({});
  for (const Endpoint* member : {&ud.b, &third}) {
    ASSERT_EQ(ibv_attach_mcast(member->qp(), &gid, 0), 0);
    ASSERT_EQ(member->receive(1, 0, 100), 0);
  }
  ibv_ah_attr attributes = route_to(gid);
  const Owned<ibv_ah> handle(ibv_create_ah(ud.host.pd(), &attributes));
  ASSERT_EQ(ud.a.post(IBV_WR_SEND, 1, 0, 20,
                      [&](ibv_send_wr& request) {
                        request.wr.ud = {
                            .ah = handle.get(), .remote_qpn = 0xffffff, .remote_qkey = kQKey};
                      }),
            0);
  ASSERT_OK(ud.b.wait());
  ASSERT_OK(third.wait());
  for (const Endpoint* member : {&ud.b, &third}) {
    EXPECT_EQ(ibv_detach_mcast(member->qp(), &gid, 0), 0);
  }
}

TEST(Multicast, IsKeptFromItsSenderWhereItAskedForThat) {
  const OpenDevice host;
  const ibv_gid gid = group(static_cast<std::uint8_t>(getpid()));
  const Endpoint hears(host, {.type = IBV_QPT_UD});
  const Endpoint ignores(host,
                         {.type = IBV_QPT_UD, .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB});
  ibv_ah_attr attributes = route_to(gid);
  const Owned<ibv_ah> handle(ibv_create_ah(host.pd(), &attributes));
  for (const Endpoint* member : {&hears, &ignores}) {
    member->connect({});
    ASSERT_EQ(ibv_attach_mcast(member->qp(), &gid, 0), 0);
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(member->receive(i, 0, 100), 0);
  }
  const auto send_to_group = [&](ibv_send_wr& request) {
    request.wr.ud = {.ah = handle.get(), .remote_qpn = 0xffffff, .remote_qkey = kQKey};
  };
  ASSERT_EQ(ignores.post(IBV_WR_SEND, 9, 0, 20, send_to_group), 0);
  ASSERT_EQ(ignores.wait().opcode, IBV_WC_SEND);
  EXPECT_EQ(hears.wait().src_qp, ignores.qp()->qp_num);
  ASSERT_EQ(hears.post(IBV_WR_SEND, 9, 0, 20, send_to_group), 0);
  const ibv_wc first = ignores.wait();  // Its own message would have come before.
  ASSERT_EQ(first.opcode, IBV_WC_RECV);
  EXPECT_EQ(first.src_qp, hears.qp()->qp_num);
  for (const Endpoint* member : {&hears, &ignores}) {
    EXPECT_EQ(ibv_detach_mcast(member->qp(), &gid, 0), 0);
  }
}

TEST(Multicast, IsForDatagramsAndGroupsOnly) {
  const Pair pair;
  const ibv_gid gid = group(1);
  EXPECT_EQ(ibv_attach_mcast(pair.a.qp(), &gid, 0), EINVAL);
  const Datagrams ud;
  const ibv_gid unicast = ud.host.gid(1);
  EXPECT_EQ(ibv_attach_mcast(ud.a.qp(), &unicast, 0), EINVAL);
}

}  // namespace
}  // namespace verbs_test
