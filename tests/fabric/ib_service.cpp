#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <rdma/rdma_verbs.h>

/// Connections to InfiniBand services by AF_IB.
///
///     ib_service serve SPACE SERVICE MASK          prints what each client sends, until it is
///     killed ib_service ask SPACE SERVICE GID PKEY        sends private data and a message
///
/// SPACE: ib or tcp. Both print the errno of a call that fails.
namespace {

constexpr std::size_t kRequestBytes = 92;  // IBA 12.6.5: all of a REQ's private data.
constexpr std::size_t kReplyBytes = 196;
constexpr std::uint8_t kRequest = 0x5a, kReply = 0xa5;
constexpr char kMessage[] = "hello";

void check(bool good, const char* what) {
  if (good) return;
  const int error = errno;
  std::printf("%s: %s\n", what, strerrorname_np(error));
  std::exit(1);
}

rdma_port_space space_of(const std::string& name) {
  return name == "tcp" ? RDMA_PS_TCP : RDMA_PS_IB;
}

sockaddr_ib address_of(const char* service) {
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_sid = htobe64(std::strtoull(service, nullptr, 0));
  address.sib_sid_mask = ~__be64{0};
  return address;
}

sockaddr* as_sockaddr(sockaddr_ib& address) { return reinterpret_cast<sockaddr*>(&address); }

rdma_cm_id* make_id(const char* space) {
  rdma_cm_id* id = nullptr;  // Without a channel its calls wait.
  check(rdma_create_id(nullptr, &id, nullptr, space_of(space)) == 0, "rdma_create_id");
  return id;
}

void make_queue_pair(rdma_cm_id* id) {
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  attributes.qp_type = IBV_QPT_RC;
  check(rdma_create_qp(id, nullptr, &attributes) == 0, "rdma_create_qp");
}

/// The partition that the id's queue pair is in.
unsigned pkey_of(rdma_cm_id* id) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr made{};
  check(ibv_query_qp(id->qp, &attributes, IBV_QP_PKEY_INDEX, &made) == 0, "ibv_query_qp");
  __be16 pkey = 0;
  check(ibv_query_pkey(id->verbs, 1, attributes.pkey_index, &pkey) == 0, "ibv_query_pkey");
  return be16toh(pkey);
}

rdma_conn_param parameters_of(const std::vector<std::uint8_t>& data) {
  rdma_conn_param parameters{};
  parameters.private_data = data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(data.size());
  parameters.rnr_retry_count = 7;
  return parameters;
}

/// How many bytes of private data are as they were sent, from the first on.
std::size_t count(const rdma_cm_id* id, std::uint8_t value) {
  const rdma_conn_param& parameters = id->event->param.conn;
  const auto* const bytes = static_cast<const std::uint8_t*>(parameters.private_data);
  std::size_t good = 0;
  while (good < parameters.private_data_len && bytes[good] == value) ++good;
  return good;
}

void serve_one(rdma_cm_id* listener) {
  rdma_cm_id* id = nullptr;
  check(rdma_get_request(listener, &id) == 0, "rdma_get_request");
  const std::size_t good = count(id, kRequest);
  sockaddr_ib named;
  std::memcpy(&named, &id->route.addr.src_storage, sizeof named);
  make_queue_pair(id);
  std::array<char, sizeof kMessage> text{};
  ibv_mr* const region = rdma_reg_msgs(id, text.data(), text.size());
  check(region != nullptr, "rdma_reg_msgs");
  check(rdma_post_recv(id, nullptr, text.data(), text.size(), region) == 0, "rdma_post_recv");
  const std::vector<std::uint8_t> reply(kReplyBytes, kReply);
  rdma_conn_param parameters = parameters_of(reply);
  check(rdma_accept(id, &parameters) == 0, "rdma_accept");
  ibv_wc done{};
  check(rdma_get_recv_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "the message");
  std::printf("service %#llx: %zu bytes, %s, pkey %#x\n",
              static_cast<unsigned long long>(be64toh(named.sib_sid)), good, text.data(),
              pkey_of(id));
  rdma_disconnect(id);
  rdma_dereg_mr(region);
  rdma_destroy_ep(id);
}

int serve(char** argv) {
  rdma_cm_id* const listener = make_id(argv[0]);
  sockaddr_ib address = address_of(argv[1]);
  address.sib_sid_mask = htobe64(std::strtoull(argv[2], nullptr, 0));
  check(rdma_bind_addr(listener, as_sockaddr(address)) == 0, "rdma_bind_addr");
  check(rdma_listen(listener, 8) == 0, "rdma_listen");
  std::memcpy(&address, &listener->route.addr.src_storage, sizeof address);
  std::printf("listens at %#llx mask %#llx\n",
              static_cast<unsigned long long>(be64toh(address.sib_sid)),
              static_cast<unsigned long long>(be64toh(address.sib_sid_mask)));
  for (;;) serve_one(listener);
}

int ask(char** argv) {
  rdma_cm_id* const id = make_id(argv[0]);
  sockaddr_ib peer = address_of(argv[1]);
  check(inet_pton(AF_INET6, argv[2], &peer.sib_addr) == 1, "GID");
  peer.sib_pkey = htobe16(static_cast<std::uint16_t>(std::strtoul(argv[3], nullptr, 0)));
  check(rdma_resolve_addr(id, nullptr, as_sockaddr(peer), 2000) == 0, "rdma_resolve_addr");
  check(rdma_resolve_route(id, 5000) == 0, "rdma_resolve_route");
  make_queue_pair(id);
  const std::vector<std::uint8_t> request(kRequestBytes, kRequest);
  rdma_conn_param parameters = parameters_of(request);
  check(rdma_connect(id, &parameters) == 0, "rdma_connect");
  std::printf("accepted: %zu bytes, pkey %#x\n", count(id, kReply), pkey_of(id));
  std::array<char, sizeof kMessage> text{};
  std::memcpy(text.data(), kMessage, sizeof kMessage);
  ibv_mr* const region = rdma_reg_msgs(id, text.data(), text.size());
  check(region != nullptr, "rdma_reg_msgs");
  check(rdma_post_send(id, nullptr, text.data(), text.size(), region, IBV_SEND_SIGNALED) == 0,
        "rdma_post_send");
  ibv_wc done{};
  check(rdma_get_send_comp(id, &done) == 1 && done.status == IBV_WC_SUCCESS, "the message");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 5 && argv[1] == std::string("serve")) return serve(argv + 2);
  if (argc == 6 && argv[1] == std::string("ask")) return ask(argv + 2);
  std::puts("ib_service serve SPACE SERVICE MASK | ask SPACE SERVICE GID PKEY");
  return 2;
}
