#include <cerrno>
#include <cstring>
#include <thread>

#include <endian.h>
#include <infiniband/ib.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include "test_util.h"

/// Ids without a peer: addresses, ports, options, names; and the synchronous calls.
namespace rdmacm_test {
namespace {

int bind_at(rdma_cm_id* id, const std::string& ip, std::uint16_t port) {
  sockaddr_in address = address_of(ip, port);
  return rdma_bind_addr(id, as_sockaddr(address)) == 0 ? 0 : errno;
}

TEST(Bind, ASpecificAddressBindsToTheDevice) {
  const Channel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(bind_at(id.get(), own_address(), 0), 0);
  EXPECT_NE(id->verbs, nullptr);
  EXPECT_NE(id->pd, nullptr);
  EXPECT_EQ(id->port_num, 1);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
}

TEST(QueuePair, OfAnotherTypeThanItsIdIsRefusedInWords) {
  const Channel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(bind_at(id.get(), own_address(), 0), 0);
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  attributes.qp_type = IBV_QPT_UD;
  testing::internal::CaptureStderr();
  EXPECT_EQ(rdma_create_qp(id.get(), nullptr, &attributes), -1);
  EXPECT_EQ(errno, EINVAL);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the id is for RC queue pairs, as RDMA_PS_TCP says, not for UD"),
            std::string::npos)
      << said;
  EXPECT_EQ(id->qp, nullptr);
}

TEST(Bind, AWildcardDoesNot) {
  const Channel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(bind_at(id.get(), "0.0.0.0", 0), 0);
  EXPECT_EQ(id->verbs, nullptr);
  EXPECT_NE(rdma_get_src_port(id.get()), 0);
}

TEST(Bind, APortIsOnesOwnUntilTheIdGoes) {
  const Channel channel;
  Id one = make_id(channel);
  ASSERT_EQ(bind_at(one.get(), own_address(), 0), 0);
  const std::uint16_t port = ntohs(rdma_get_src_port(one.get()));
  const Id two = make_id(channel);
  EXPECT_EQ(bind_at(two.get(), own_address(), port), EADDRINUSE);
  EXPECT_EQ(bind_at(two.get(), "0.0.0.0", port), EADDRNOTAVAIL);
  const Id datagrams = make_id(channel, RDMA_PS_UDP);
  EXPECT_EQ(bind_at(datagrams.get(), own_address(), port), 0);
  one.reset();
  EXPECT_EQ(bind_at(two.get(), own_address(), port), 0);
}

int bind_to_service(rdma_cm_id* id, std::uint64_t service, std::uint64_t mask = ~std::uint64_t{0}) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_sid = htobe64(service);
  address.sib_sid_mask = htobe64(mask);
  return rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0 ? 0 : errno;
}

std::uint64_t service_of(const Id& id) {
  sockaddr_ib address;
  std::memcpy(&address, &id->route.addr.src_storage, sizeof address);
  return be64toh(address.sib_sid);
}

/// A RDMA_PS_IB id may be at any service; what Linux has for it is in the rows with a port.
TEST(Bind, AfIbNamesAPortOrAService) {
  constexpr std::uint64_t kSrp = 0x0200'0000'0010'0000, kPorts = 0xffff'ffff'ffff'0000;
  constexpr std::uint64_t kTcp = std::uint64_t{RDMA_PS_TCP} << 16;
  constexpr std::uint64_t kIb = std::uint64_t{RDMA_PS_IB} << 16;
  struct Row {
    rdma_port_space space;
    std::uint64_t service, mask;
    int error;
    std::uint64_t bound;  // Port 0: any.
  };
  constexpr Row kRows[] = {
      {RDMA_PS_IB, kSrp, ~0ull, 0, kSrp},
      {RDMA_PS_IB, kSrp + 5, ~0ull << 8, 0, kSrp},
      {RDMA_PS_IB, 0x11389, ~0ull, 0, 0x11389},
      {RDMA_PS_IB, kTcp + 5676, ~0ull, 0, kTcp + 5676},
      {RDMA_PS_IB, kTcp + 5676, kPorts, 0, kTcp},
      {RDMA_PS_IB, kIb + 5676, ~0ull, 0, kIb + 5676},
      {RDMA_PS_IB, 0, 0, 0, kIb},
      {RDMA_PS_IB, kIb + 5, ~0ull, EACCES, 0},
      {RDMA_PS_TCP, 0, 0, 0, kTcp},
      {RDMA_PS_TCP, kTcp + 5676, ~0ull, 0, kTcp + 5676},
      {RDMA_PS_TCP, kIb + 5676, ~0ull, EPROTONOSUPPORT, 0},
      {RDMA_PS_TCP, kSrp, ~0ull, EPROTONOSUPPORT, 0},
      {RDMA_PS_UDP, kSrp, ~0ull, EPROTONOSUPPORT, 0},
  };
  const Channel channel;
  for (const Row& row : kRows) {
    SCOPED_TRACE(testing::Message() << std::hex << row.space << ", " << row.service);
    if (row.error == EACCES && geteuid() == 0) continue;
    const Id id = make_id(channel, row.space);
    ASSERT_EQ(bind_to_service(id.get(), row.service, row.mask), row.error);
    if (row.error != 0) continue;
    EXPECT_EQ(service_of(id) & ((row.bound & 0xffff) == 0 ? kPorts : ~0ull), row.bound);
    EXPECT_TRUE(row.bound >= kSrp || (service_of(id) & 0xffff) != 0) << "no port";
  }
}

/// Linux's rdma_cm had this port space; our SDP sockets use it.
TEST(Bind, APortOfSdpIsNoneOfTcps) {
  constexpr auto kSdp = static_cast<rdma_port_space>(0x0001);
  const Channel channel;
  const Id sdp = make_id(channel, kSdp);
  const Id tcp = make_id(channel, RDMA_PS_TCP);
  sockaddr_in any{.sin_family = AF_INET};
  ASSERT_EQ(rdma_bind_addr(sdp.get(), reinterpret_cast<sockaddr*>(&any)), 0);
  any.sin_port = rdma_get_src_port(sdp.get());
  ASSERT_NE(any.sin_port, 0);
  EXPECT_EQ(rdma_bind_addr(tcp.get(), reinterpret_cast<sockaddr*>(&any)), 0);
  const Id other = make_id(channel, kSdp);
  EXPECT_EQ(rdma_bind_addr(other.get(), reinterpret_cast<sockaddr*>(&any)), -1);
}

TEST(Bind, AServiceIsOnesOwnUntilTheIdGoes) {
  constexpr std::uint64_t kService = 0x1000'0000'0000'0048, kAny = ~std::uint64_t{0xff'ffff};
  const Channel channel;
  Id one = make_id(channel, RDMA_PS_IB);
  ASSERT_EQ(bind_to_service(one.get(), kService), 0);
  const Id two = make_id(channel, RDMA_PS_IB);
  EXPECT_EQ(bind_to_service(two.get(), kService), EADDRNOTAVAIL);
  EXPECT_EQ(bind_to_service(two.get(), kService, kAny), EADDRNOTAVAIL);
  one.reset();
  EXPECT_EQ(bind_to_service(two.get(), kService, kAny), 0);
}

TEST(Bind, ReuseSharesAPortUntilOneListens) {
  const Channel channel;
  const Id one = make_id(channel);
  const Id two = make_id(channel);
  int on = 1;
  for (const Id* id : {&one, &two}) {
    ASSERT_EQ(rdma_set_option(id->get(), RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on),
              0);
  }
  ASSERT_EQ(bind_at(one.get(), own_address(), 0), 0);
  ASSERT_EQ(bind_at(two.get(), own_address(), ntohs(rdma_get_src_port(one.get()))), 0);
  EXPECT_EQ(rdma_listen(one.get(), 1), -1);
  EXPECT_EQ(errno, EADDRINUSE);
}

TEST(Bind, WrongUseIsRefused) {
  const Channel channel;
  const Id id = make_id(channel);
  EXPECT_EQ(bind_at(id.get(), "192.0.2.1", 0), EADDRNOTAVAIL);
  sockaddr unknown{};
  unknown.sa_family = AF_UNIX;
  EXPECT_EQ(rdma_bind_addr(id.get(), &unknown), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(bind_at(id.get(), own_address(), 0), 0);
  EXPECT_EQ(bind_at(id.get(), own_address(), 0), EINVAL);
  EXPECT_EQ(rdma_resolve_route(id.get(), 100), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Resolve, AnAddressOfAnotherFamilyIsAnError) {
  const Channel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(bind_at(id.get(), own_address(), 0), 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  inet_pton(AF_INET6, "2001:db8::1", &address.sin6_addr);
  ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, reinterpret_cast<sockaddr*>(&address), 100), 0);
  const Event error = channel.expect(RDMA_CM_EVENT_ADDR_ERROR);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, -ENODEV);
}

TEST(Resolve, TheRouteIsOnePath) {
  const Listener listener;
  const Client client(listener.port());
  const rdma_route& route = client.id->route;
  ASSERT_EQ(route.num_paths, 1);
  EXPECT_EQ(std::memcmp(&route.path_rec->dgid, &route.addr.addr.ibaddr.dgid, 16), 0);
  EXPECT_EQ(route.path_rec->pkey, 0xffff);
}

TEST(QueuePair, AnXrcTargetsIdKeepsItsDomainForASharedReceiveQueue) {
  const Channel channel;
  const Id id = make_id(channel);
  ASSERT_EQ(bind_at(id.get(), own_address(), 0), 0);
  id->qp_type = IBV_QPT_XRC_RECV;  // As rdma_create_ep sets it from the address.
  ibv_qp_init_attr target{};
  target.qp_type = IBV_QPT_XRC_RECV;
  ASSERT_EQ(rdma_create_qp(id.get(), nullptr, &target), 0) << std::strerror(errno);
  EXPECT_EQ(id->qp->pd, nullptr);
  EXPECT_NE(id->pd, nullptr);
  ibv_srq_init_attr wanted{};
  wanted.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  ASSERT_EQ(rdma_create_srq(id.get(), nullptr, &wanted), 0) << std::strerror(errno);
  rdma_destroy_srq(id.get());
}

TEST(Synchronous, EndpointsConnectInOneCallEach) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* where = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(own_address().c_str(), "7471", &hints, &where), 0);
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 1,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 16};
  attributes.qp_type = IBV_QPT_RC;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, where, nullptr, &attributes), 0) << std::strerror(errno);
  rdma_freeaddrinfo(where);
  ASSERT_EQ(rdma_listen(listener, 0), 0);

  std::thread server([listener] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0) << std::strerror(errno);
    EXPECT_NE(id->qp, nullptr);
    EXPECT_EQ(rdma_accept(id, nullptr), 0) << std::strerror(errno);
    EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(rdma_disconnect(id), 0);
    rdma_destroy_ep(id);
  });
  hints.ai_flags = 0;
  ASSERT_EQ(rdma_getaddrinfo(own_address().c_str(), "7471", &hints, &where), 0);
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(rdma_create_ep(&client, where, nullptr, &attributes), 0) << std::strerror(errno);
  rdma_freeaddrinfo(where);
  EXPECT_EQ(rdma_connect(client, nullptr), 0) << std::strerror(errno);
  server.join();
  EXPECT_EQ(rdma_disconnect(client), 0);
  rdma_destroy_ep(client);
  rdma_destroy_ep(listener);
}

TEST(Synchronous, ARefusalIsAnErrno) {
  std::uint16_t port = 0;
  {
    const Listener listener;
    port = listener.port();
  }
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  sockaddr_in address = address_of(own_address(), port);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(address), 100), 0);
  EXPECT_EQ(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 100), 0);
  make_queue_pair(id);
  EXPECT_EQ(rdma_connect(id, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  rdma_destroy_ep(id);
}

TEST(Multicast, JoiningTellsHowToSend) {
  const Channel channel;
  const Id id = make_id(channel, RDMA_PS_UDP);
  ASSERT_EQ(bind_at(id.get(), own_address(), 0), 0);
  make_queue_pair(id.get());
  sockaddr_in group = address_of("239.1.2.3", 0);
  int context = 0;
  ASSERT_EQ(rdma_join_multicast(id.get(), as_sockaddr(group), &context), 0);
  {
    const Event joined = channel.expect(RDMA_CM_EVENT_MULTICAST_JOIN);
    ASSERT_TRUE(joined);
    EXPECT_EQ(joined->param.ud.qp_num, 0xffffffu);
    EXPECT_EQ(joined->param.ud.qkey, unsigned{RDMA_UDP_QKEY});
    EXPECT_EQ(joined->param.ud.private_data, &context);
    const ibv_gid& gid = joined->param.ud.ah_attr.grh.dgid;
    EXPECT_EQ(std::memcmp(gid.raw + 12, &group.sin_addr, 4), 0);
  }
  EXPECT_EQ(rdma_leave_multicast(id.get(), as_sockaddr(group)), 0);
  EXPECT_EQ(rdma_leave_multicast(id.get(), as_sockaddr(group)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST(Options, AreCheckedForSizeAndState) {
  const Channel channel;
  const Id id = make_id(channel);
  std::uint8_t tos = 0x20;
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 4), -1);
  EXPECT_EQ(errno, EINVAL);
  std::uint8_t timeout = 32;
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_set_option(id.get(), 7, 0, &tos, 1), -1);
  EXPECT_EQ(errno, ENOSYS);
}

TEST(Names, ResolveAsTheHintsSay) {
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", nullptr, &found), 0);
  EXPECT_EQ(found->ai_family, AF_INET);
  EXPECT_EQ(found->ai_qp_type, IBV_QPT_RC);
  EXPECT_EQ(found->ai_port_space, RDMA_PS_TCP);
  EXPECT_EQ(found->ai_src_len, 0u);
  EXPECT_EQ(found->ai_dst_len, sizeof(sockaddr_in));
  rdma_freeaddrinfo(found);
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST;
  hints.ai_port_space = RDMA_PS_UDP;
  hints.ai_qp_type = IBV_QPT_UD;
  ASSERT_EQ(rdma_getaddrinfo("::1", "7471", &hints, &found), 0);
  EXPECT_EQ(found->ai_src_addr->sa_family, AF_INET6);
  EXPECT_EQ(found->ai_dst_len, 0u);
  rdma_freeaddrinfo(found);
  EXPECT_NE(rdma_getaddrinfo("no-number", "7471", &hints, &found), 0);
}

}  // namespace
}  // namespace rdmacm_test
