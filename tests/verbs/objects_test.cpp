#include <cerrno>

#include <arpa/inet.h>
#include <sys/mman.h>

#include "kit.h"

/// Devices and objects: what queries say, what is refused and with which errno, what is busy.
namespace verbs_test {
namespace {

TEST(Device, DescribesItself) {
  const Host host;
  ibv_device* const device = host.context()->device;
  EXPECT_EQ(device->node_type, IBV_NODE_CA);
  EXPECT_EQ(device->transport_type, IBV_TRANSPORT_IB);
  ibv_device_attr attributes{};
  ASSERT_EQ(ibv_query_device(host.context(), &attributes), 0);
  EXPECT_EQ(attributes.node_guid, ibv_get_device_guid(device));
  EXPECT_NE(attributes.node_guid, 0u);
  EXPECT_EQ(attributes.phys_port_cnt, 1);
  EXPECT_EQ(attributes.atomic_cap, IBV_ATOMIC_HCA);
  EXPECT_GE(attributes.max_qp_wr, 4096);
  EXPECT_GE(attributes.max_cqe, 256 << 10);
  EXPECT_GE(attributes.max_sge, 5);
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(host.context(), nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &attributes, sizeof attributes), 0);
}

TEST(Device, OutlivesItsList) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  ibv_device* const device = list[0];
  EXPECT_EQ(list[1], nullptr);
  ibv_free_device_list(list);
  EXPECT_STREQ(ibv_get_device_name(device), "verbatim0");
  ibv_context* const context = ibv_open_device(device);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(Port, IsAnActiveEthernetPort) {
  const Host host;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(host.context(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);  // The loopback interface has room.
  EXPECT_EQ(port.max_msg_sz, 1u << 30);
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(ibv_query_port(host.context(), 0, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(host.context(), 2, &port), EINVAL);
}

TEST(Port, HasOnePartitionKey) {
  const Host host;
  __be16 key = 0;
  ASSERT_EQ(ibv_query_pkey(host.context(), 1, 0, &key), 0);
  EXPECT_EQ(key, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(host.context(), 1, 0xffff), 0);
  EXPECT_EQ(ibv_get_pkey_index(host.context(), 1, htons(0x7fff)), -1);
  EXPECT_EQ(ibv_query_pkey(host.context(), 1, 1, &key), -1);
}

TEST(GidTable, IsLaidOutAsLinuxDoes) {
  const Host host;
  const ibv_gid link_local = host.gid(0);
  EXPECT_EQ(link_local.raw[0], 0xfe);
  EXPECT_EQ(link_local.raw[1], 0x80);
  const ibv_gid mapped = host.gid(1);
  char address[INET_ADDRSTRLEN];
  EXPECT_STREQ(inet_ntop(AF_INET, mapped.raw + 12, address, sizeof address),
               getenv("VERBATIM_ADDRESS"));
  EXPECT_EQ(mapped.raw[10] << 8 | mapped.raw[11], 0xffff);
}

TEST(GidTable, EntriesHaveTypesAndTheTableHasAnEnd) {
  const Host host;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(host.context(), 1, &port), 0);
  ibv_gid_entry entries[64];
  const ssize_t count = ibv_query_gid_table(host.context(), entries, 64, 0);
  ASSERT_GE(count, 2);
  for (ssize_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint32_t>(i);
    EXPECT_EQ(entries[i].gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
    EXPECT_EQ(entries[i].gid_index, index);
    EXPECT_EQ(entries[i].port_num, 1u);
    ibv_gid_entry same{};
    ASSERT_EQ(ibv_query_gid_ex(host.context(), 1, index, &same, 0), 0);
    EXPECT_EQ(std::memcmp(&same, &entries[i], sizeof same), 0);
  }
  EXPECT_EQ(ibv_query_gid_table(host.context(), entries, static_cast<std::size_t>(count) - 1, 0),
            -EINVAL);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(host.context(), 1, static_cast<std::uint32_t>(count), &entry, 0),
            ENODATA);
  EXPECT_EQ(
      ibv_query_gid_ex(host.context(), 1, static_cast<std::uint32_t>(port.gid_tbl_len), &entry, 0),
      EINVAL);
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(host.context(), 1, port.gid_tbl_len - 1, &gid), 0);  // Empty: zero.
  EXPECT_EQ(gid.global.interface_id, 0u);
  EXPECT_EQ(ibv_query_gid(host.context(), 1, port.gid_tbl_len, &gid), -1);
}

/// errno of a registration that has to fail.
int refused_registration(const Host& host, void* address, std::size_t length, int access) {
  errno = 0;
  ibv_mr* const region = ibv_reg_mr(host.pd(), address, length, access);
  if (region == nullptr) return errno;
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  return 0;
}

TEST(Registration, OfMemoryThatIsNotMappedIsEfault) {
  const Host host;
  void* const memory =
      mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(munmap(static_cast<char*>(memory) + 8192, 4096), 0);  // A hole.
  EXPECT_EQ(refused_registration(host, memory, 16384, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(refused_registration(host, memory, 8193, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(refused_registration(host, memory, 8192, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(refused_registration(host, nullptr, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  munmap(memory, 16384);
}

TEST(Registration, OfReadOnlyMemoryForWritingIsEfault) {
  const Host host;
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(refused_registration(host, memory, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(refused_registration(host, memory, 4096, IBV_ACCESS_REMOTE_READ), 0);
  munmap(memory, 4096);
}

TEST(Registration, ForRemoteWritingWithoutLocalWritingIsEinval) {
  const Host host;
  std::vector<std::byte> memory(4096);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_REMOTE_READ), 0);
}

TEST(Registration, IgnoresOptionalRightsAndRefusesUnknownOnes) {
  const Host host;
  std::vector<std::byte> memory(4096);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING),
            0);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE | 1 << 18),
            EINVAL);
  constexpr int kFlushPersistent = 1 << 9;  // Of newer headers.
  EXPECT_EQ(
      refused_registration(host, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE | kFlushPersistent),
      EOPNOTSUPP);
}

TEST(Registration, GivesKeysThatDoNotFollowEachOther) {
  const Host host;
  std::vector<std::byte> memory(4096);
  const Owned<ibv_mr> a(ibv_reg_mr(host.pd(), memory.data(), 4096, kAllAccess));
  const Owned<ibv_mr> b(ibv_reg_mr(host.pd(), memory.data(), 4096, kAllAccess));
  EXPECT_GT(static_cast<std::uint32_t>(std::abs(static_cast<std::int64_t>(a->rkey) - b->rkey)),
            0x100u);
}

TEST(Busy, ObjectsInUseAreNotDestroyed) {
  const Host host;
  const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(host.context()));
  EndpointOptions options;
  options.channel = channel.get();
  const Endpoint end(host, options);
  EXPECT_EQ(ibv_dealloc_pd(host.pd()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(end.cq()), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(channel.get()), EBUSY);
}

TEST(Busy, RegionsAndAddressHandlesKeepTheirDomain) {
  const Host host;
  const Owned<ibv_pd> pd(ibv_alloc_pd(host.context()));
  {
    std::vector<std::byte> memory(64);
    const Owned<ibv_mr> region(ibv_reg_mr(pd.get(), memory.data(), 64, 0));
    EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  }
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh.dgid = host.gid(1);
  attributes.grh.sgid_index = 1;
  const Owned<ibv_ah> handle(ibv_create_ah(pd.get(), &attributes));
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
}

TEST(QueuePair, CapacitiesComeBackAtLeastAsAskedFor) {
  const Host host;
  const Endpoint end(host, {.sends = 100, .receives = 33, .segments = 5, .inline_bytes = 200});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(end.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  EXPECT_GE(initial.cap.max_send_wr, 100u);
  EXPECT_GE(initial.cap.max_recv_wr, 33u);
  EXPECT_GE(initial.cap.max_send_sge, 5u);
  EXPECT_GE(initial.cap.max_inline_data, 200u);
  EXPECT_EQ(initial.send_cq, end.cq());
  EXPECT_EQ(initial.qp_type, IBV_QPT_RC);
  EXPECT_EQ(std::memcmp(&initial.cap, &attributes.cap, sizeof initial.cap), 0);
}

TEST(QueuePair, BeyondTheLimitsIsEinval) {
  const Host host;
  const Owned<ibv_cq> cq(ibv_create_cq(host.context(), 4, nullptr, nullptr, 0));
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(host.context(), &device), 0);
  const auto refused = [&](const std::function<void(ibv_qp_init_attr&)>& change) {
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = cq.get();
    wanted.cap = {.max_send_wr = 1,
                  .max_recv_wr = 1,
                  .max_send_sge = 1,
                  .max_recv_sge = 1,
                  .max_inline_data = 0};
    change(wanted);
    errno = 0;
    ibv_qp* const qp = ibv_create_qp(host.pd(), &wanted);
    if (qp != nullptr) ibv_destroy_qp(qp);
    return qp == nullptr && errno == EINVAL;
  };
  EXPECT_FALSE(refused([](ibv_qp_init_attr&) {}));
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& q) {
    q.cap.max_send_wr = static_cast<std::uint32_t>(device.max_qp_wr) + 1;
  }));
  EXPECT_TRUE(refused([&](ibv_qp_init_attr& q) {
    q.cap.max_recv_sge = static_cast<std::uint32_t>(device.max_sge) + 1;
  }));
  EXPECT_TRUE(refused([](ibv_qp_init_attr& q) { q.cap.max_inline_data = 1 << 20; }));
  EXPECT_TRUE(refused([](ibv_qp_init_attr& q) { q.recv_cq = nullptr; }));
}

TEST(QueuePair, KeepsWhatItWasModifiedTo) {
  const Pair pair({}, {.mtu = IBV_MTU_2048,
                       .timeout = 11,
                       .retry_count = 3,
                       .rnr_retry = 5,
                       .min_rnr_timer = 9,
                       .rd_atomic = 7,
                       .psn = 0x123456});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, ~0, &initial), 0);
  EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attributes.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(attributes.timeout, 11);
  EXPECT_EQ(attributes.retry_cnt, 3);
  EXPECT_EQ(attributes.rnr_retry, 5);
  EXPECT_EQ(attributes.min_rnr_timer, 9);
  EXPECT_EQ(attributes.max_rd_atomic, 7);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 7);
  EXPECT_EQ(attributes.rq_psn, 0x123456u);
  EXPECT_EQ(attributes.sq_psn, 0x123456u);
  EXPECT_EQ(attributes.dest_qp_num, pair.b.qp()->qp_num);
  EXPECT_EQ(attributes.qp_access_flags, static_cast<unsigned>(kAllAccess));
  EXPECT_EQ(attributes.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(attributes.ah_attr.is_global, 1);
  EXPECT_EQ(pair.a.qp()->state, IBV_QPS_RTS);
}

TEST(QueuePair, TransitionsWithoutTheirAttributesAreEinval) {
  const Host host;
  const Endpoint end(host);
  EXPECT_EQ(end.qp()->state, IBV_QPS_RESET);
  EXPECT_EQ(end.modify_state(IBV_QPS_INIT), EINVAL);  // Port, P_Key and access are missing.
  EXPECT_EQ(end.modify_state(IBV_QPS_RTR), EINVAL);
  end.to_init();
  EXPECT_EQ(end.qp()->state, IBV_QPS_INIT);
  EXPECT_EQ(end.modify_state(IBV_QPS_RTR), EINVAL);
  EXPECT_EQ(end.modify_state(IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(end.state(), IBV_QPS_INIT);
}

/// The result of going to RTR with one thing changed.
int rtr_with(const std::function<void(ibv_qp_attr&)>& change) {
  const Host host;
  const Endpoint end(host);
  end.to_init();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = end.qp()->qp_num;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.dgid = host.gid(1);
  attributes.ah_attr.grh.sgid_index = 1;
  attributes.ah_attr.grh.hop_limit = 1;
  change(attributes);
  return ibv_modify_qp(end.qp(), &attributes,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

TEST(QueuePair, PathsThatCannotBeAreEinval) {
  EXPECT_EQ(rtr_with([](ibv_qp_attr&) {}), 0);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(6); }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.path_mtu = static_cast<ibv_mtu>(0); }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.ah_attr.is_global = 0; }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.ah_attr.grh.sgid_index = 40; }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.ah_attr.grh.dgid = {}; }), EINVAL);
  EXPECT_EQ(rtr_with([](ibv_qp_attr& a) { a.max_dest_rd_atomic = 255; }), EINVAL);
}

TEST(Posting, InStatesThatCannotSendIsEinval) {
  const Host host;
  const Endpoint end(host);
  EXPECT_EQ(end.post(IBV_WR_SEND, 1, 0, 8), EINVAL);
  EXPECT_EQ(end.receive(1, 0, 8), EINVAL);
  end.to_init();
  EXPECT_EQ(end.receive(1, 0, 8), 0);  // Receives may be posted from INIT on.
  EXPECT_EQ(end.post(IBV_WR_SEND, 1, 0, 8), EINVAL);
  end.to_rtr(end.address());
  EXPECT_EQ(end.post(IBV_WR_SEND, 1, 0, 8), EINVAL);
}

TEST(Posting, ToAFullSendQueueIsEnomemAndNamesTheRequest) {
  const Pair pair({.completions = 256, .sends = 8});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  // No receive is posted, so nothing completes.
  for (std::uint32_t i = 0; i < initial.cap.max_send_wr; ++i) {
    ASSERT_EQ(pair.a.post(IBV_WR_SEND, i, 0, 8), 0);
  }
  EXPECT_EQ(pair.a.post(IBV_WR_SEND, 99, 0, 8), ENOMEM);
}

TEST(Posting, ToAFullReceiveQueueIsEnomem) {
  const Pair pair;
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  for (std::uint32_t i = 0; i < initial.cap.max_recv_wr; ++i) ASSERT_EQ(pair.a.receive(i, 0, 8), 0);
  EXPECT_EQ(pair.a.receive(99, 0, 8), ENOMEM);
}

TEST(Posting, MoreThanTheQueuePairHoldsIsEinval) {
  const Pair pair({.segments = 2, .inline_bytes = 16});
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  ASSERT_EQ(ibv_query_qp(pair.a.qp(), &attributes, IBV_QP_CAP, &initial), 0);
  const std::vector<ibv_sge> many(initial.cap.max_send_sge + 1, pair.a.segment(0, 1));
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(pair.a.post(request, many), EINVAL);
  EXPECT_EQ(
      pair.a.receive(1, std::vector<ibv_sge>(initial.cap.max_recv_sge + 1, pair.a.segment(0, 1))),
      EINVAL);
  request.send_flags = IBV_SEND_INLINE;
  EXPECT_EQ(pair.a.post(request, {pair.a.segment(0, initial.cap.max_inline_data + 1)}), EINVAL);
}

TEST(CompletionQueue, SizesOutOfRangeAreEinval) {
  const Host host;
  for (const int entries : {0, -1, 1 << 30}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(host.context(), entries, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_create_cq(host.context(), 1, nullptr, nullptr, 1), nullptr);  // One vector: 0.
  const Owned<ibv_cq> large(ibv_create_cq(host.context(), 256 << 10, nullptr, nullptr, 0));
  ASSERT_NE(large, nullptr);
  EXPECT_GE(large->cqe, 256 << 10);
}

/// A program that leaves without destroying: what arrives later finds nobody.
TEST(Device, ClosedWithObjectsLeftBehindStopsThem) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  ibv_context* const left = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  ibv_pd* const pd = ibv_alloc_pd(left);
  ibv_cq* const cq = ibv_create_cq(left, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {1, 1, 1, 1, 0};
  ibv_qp* const qp = ibv_create_qp(pd, &wanted);
  ASSERT_NE(qp, nullptr);
  const std::uint32_t qpn = qp->qp_num;
  EXPECT_EQ(ibv_close_device(left), 0);
  const Host host;
  const Endpoint alone(host);
  Address gone = alone.address();
  gone.qpn = qpn;
  alone.connect(gone, {.timeout = 8, .retry_count = 1});
  ASSERT_EQ(alone.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(alone)), 0);
  EXPECT_EQ(alone.wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(NotImplemented, FailsWithEopnotsupp) {
  const Host host;
  ibv_srq_init_attr srq{};
  srq.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  errno = 0;
  EXPECT_EQ(ibv_create_srq(host.pd(), &srq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(host.pd(), IBV_MW_TYPE_1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace verbs_test
