#include <cerrno>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test_util.h"

/// Devices, regions, completion queues: queries, refusals with their errno, objects in use.
namespace verbs_test {
namespace {

TEST(Device, DescribesItself) {
  const OpenDevice host;
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
  // Compares padding, too: both were zeroed.
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &attributes, sizeof attributes), 0);  // NOLINT
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
  const OpenDevice host;
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(host.context(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);  // The loopback interface allows it.
  EXPECT_EQ(port.max_msg_sz, 1u << 30);
  EXPECT_EQ(port.lid, 0);
  EXPECT_EQ(ibv_query_port(host.context(), 0, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(host.context(), 2, &port), EINVAL);
}

TEST(Port, TellsItsSpeedAsWidthAndSpeedDo) {
  using Query = int (*)(ibv_context*, std::uint32_t, std::uint64_t*);  // From newer headers.
  const auto query = reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "ibv_query_port_speed"));
  ASSERT_NE(query, nullptr);
  const OpenDevice host;
  std::uint64_t speed = 0;
  ASSERT_EQ(query(host.context(), 1, &speed), 0);
  EXPECT_EQ(speed, 1000u);  // 100 Gbit/s: four lanes of EDR.
  EXPECT_EQ(query(host.context(), 2, &speed), EINVAL);
}

TEST(Port, HasOnePartitionKey) {
  const OpenDevice host;
  __be16 key = 0;
  ASSERT_EQ(ibv_query_pkey(host.context(), 1, 0, &key), 0);
  EXPECT_EQ(key, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(host.context(), 1, 0xffff), 0);
  EXPECT_EQ(ibv_get_pkey_index(host.context(), 1, htons(0x7fff)), -1);
  EXPECT_EQ(ibv_query_pkey(host.context(), 1, 1, &key), -1);
}

TEST(GidTable, IsLaidOutAsLinuxDoes) {
  const OpenDevice host;
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
  const OpenDevice host;
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
  EXPECT_EQ(ibv_query_gid(host.context(), 1, port.gid_tbl_len - 1, &gid), 0);  // Empty: zeros.
  EXPECT_EQ(gid.global.interface_id, 0u);
  EXPECT_EQ(ibv_query_gid(host.context(), 1, port.gid_tbl_len, &gid), -1);
}

/// Returns errno of a registration that must fail.
int refused_registration(const OpenDevice& host, void* address, std::size_t length, int access) {
  errno = 0;
  ibv_mr* const region = ibv_reg_mr(host.pd(), address, length, access);
  if (region == nullptr) return errno;
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  return 0;
}

TEST(Registration, OfMemoryThatIsNotMappedIsEfault) {
  const OpenDevice host;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory =
      mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_EQ(munmap(static_cast<char*>(memory) + 2 * page, page), 0);  // A hole.
  EXPECT_EQ(refused_registration(host, memory, 4 * page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(refused_registration(host, memory, 2 * page + 1, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(refused_registration(host, memory, 2 * page, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(refused_registration(host, nullptr, page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  munmap(memory, 4 * page);
}

TEST(Registration, OfReadOnlyMemoryForWritingIsEfault) {
  const OpenDevice host;
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_EQ(refused_registration(host, memory, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(refused_registration(host, memory, 4096, IBV_ACCESS_REMOTE_READ), 0);
  munmap(memory, 4096);
}

TEST(Registration, ForRemoteWritingWithoutLocalWritingIsEinval) {
  const OpenDevice host;
  std::vector<std::byte> memory(4096);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_REMOTE_READ), 0);
}

TEST(Registration, IgnoresOptionalRightsAndRefusesUnknownOnes) {
  const OpenDevice host;
  std::vector<std::byte> memory(4096);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096,
                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING),
            0);
  EXPECT_EQ(refused_registration(host, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE | 1 << 18),
            EINVAL);
  constexpr int kFlushPersistent = 1 << 9;  // From newer headers.
  EXPECT_EQ(
      refused_registration(host, memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE | kFlushPersistent),
      EOPNOTSUPP);
}

TEST(Registration, GivesKeysThatDoNotFollowEachOther) {
  const OpenDevice host;
  std::vector<std::byte> memory(4096);
  const Owned<ibv_mr> a(ibv_reg_mr(host.pd(), memory.data(), 4096, kAllAccess));
  const Owned<ibv_mr> b(ibv_reg_mr(host.pd(), memory.data(), 4096, kAllAccess));
  EXPECT_GT(static_cast<std::uint32_t>(std::abs(static_cast<std::int64_t>(a->rkey) - b->rkey)),
            0x100u);
}

TEST(Busy, ObjectsInUseAreNotDestroyed) {
  const OpenDevice host;
  const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(host.context()));
  EndpointOptions options;
  options.channel = channel.get();
  const Endpoint end(host, options);
  EXPECT_EQ(ibv_dealloc_pd(host.pd()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(end.cq()), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(channel.get()), EBUSY);
}

TEST(Busy, RegionsAndAddressHandlesKeepTheirDomain) {
  const OpenDevice host;
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

TEST(CompletionQueue, SizesOutOfRangeAreEinval) {
  const OpenDevice host;
  for (const int entries : {0, -1, 1 << 30}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(host.context(), entries, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_create_cq(host.context(), 1, nullptr, nullptr, 1),
            nullptr);  // There is one vector: 0.
  const Owned<ibv_cq> large(ibv_create_cq(host.context(), 256 << 10, nullptr, nullptr, 0));
  ASSERT_NE(large, nullptr);
  EXPECT_GE(large->cqe, 256 << 10);
}

/// Device closed with objects left: what arrives later is dropped.
TEST(Device, ClosedWithObjectsLeftBehindStopsThem) {
  auto on_purpose = std::make_optional<LeftBehind>();
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
  on_purpose.reset();
  const OpenDevice host;
  const Endpoint alone(host);
  Address gone = alone.address();
  gone.qpn = qpn;
  alone.connect(gone, {.timeout = 8, .retry_count = 1});
  ASSERT_EQ(alone.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(alone)), 0);
  EXPECT_EQ(alone.wait().status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace verbs_test
