#include "test_util.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

namespace rdmacm_test {
namespace {

std::string runtime_folder;
std::string address_of_node;

void remove_runtime_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(runtime_folder, ignored);
}

/// Uses addresses that only this process has, so that tests can run in parallel.
void enter_own_node() {
  char folder[] = "/tmp/verbatim-rdmacm-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) std::abort();
  runtime_folder = folder;
  setenv("XDG_RUNTIME_DIR", folder, 1);
  setenv("VERBATIM_CONFIG", folder, 1);  // No configuration file of this machine.
  const auto id = static_cast<unsigned>(getpid());
  address_of_node = "127." + std::to_string(128 + (id >> 14 & 63)) + "." +
                    std::to_string(id >> 6 & 255) + "." + std::to_string(((id & 63) << 2) + 1);
  setenv("VERBATIM_NODE", "alpha", 1);
  setenv("VERBATIM_ADDRESS", address_of_node.c_str(), 1);
  std::atexit(remove_runtime_folder);
}

}  // namespace

std::string own_address() { return address_of_node; }

sockaddr_in address_of(const std::string& ip, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, ip.c_str(), &address.sin_addr), 1);
  return address;
}

sockaddr* as_sockaddr(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

std::string private_data(const rdma_cm_event& event, std::size_t length) {
  const bool datagram = event.id->qp_type == IBV_QPT_UD;
  const void* const data = datagram ? event.param.ud.private_data : event.param.conn.private_data;
  const std::size_t there =
      datagram ? event.param.ud.private_data_len : event.param.conn.private_data_len;
  return {static_cast<const char*>(data), std::min(there, length)};
}

Event Channel::next() const {
  rdma_cm_event* event = nullptr;
  if (!readable(kTimeoutMs)) {
    ADD_FAILURE() << "no event came";
  } else {
    EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0) << std::strerror(errno);
  }
  return Event(event);
}

Event Channel::expect(rdma_cm_event_type type) const {
  Event event = next();
  EXPECT_STREQ(event ? rdma_event_str(event->event) : "nothing", rdma_event_str(type))
      << "status " << (event ? event->status : 0);
  return event;
}

Id make_id(const Channel& channel, rdma_port_space space, void* context) {
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(channel.get(), &id, context, space), 0) << std::strerror(errno);
  return Id(id);
}

void make_queue_pair(rdma_cm_id* id) {
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 4,
                    .max_recv_wr = 4,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 16};
  attributes.qp_type = id->qp_type;
  attributes.sq_sig_all = 1;
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0) << std::strerror(errno);
}

ibv_qp_state state_of(const rdma_cm_id* id) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(id->qp, &attributes, IBV_QP_STATE, &init), 0);
  return attributes.qp_state;
}

Listener::Listener(rdma_port_space space, int backlog) : id(make_id(channel, space, this)) {
  sockaddr_in address = address_of(own_address(), 0);
  EXPECT_EQ(rdma_bind_addr(id.get(), as_sockaddr(address)), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_listen(id.get(), backlog), 0) << std::strerror(errno);
}

Client::Client(std::uint16_t port, rdma_port_space space) : id(make_id(channel, space, this)) {
  sockaddr_in address = address_of(own_address(), port);
  EXPECT_EQ(rdma_resolve_addr(id.get(), nullptr, as_sockaddr(address), 2000), 0);
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_resolve_route(id.get(), 2000), 0);
  channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queue_pair(id.get());
}

rdma_conn_param parameters(std::string_view private_data) {
  rdma_conn_param result{};
  result.private_data = private_data.data();
  result.private_data_len = static_cast<std::uint8_t>(private_data.size());
  result.responder_resources = 3;
  result.initiator_depth = 2;
  result.retry_count = 5;
  result.rnr_retry_count = 6;
  return result;
}

int Client::connect(const std::string& private_data) {
  rdma_conn_param wanted = parameters(private_data);
  return rdma_connect(id.get(), &wanted);
}

}  // namespace rdmacm_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests)) rdmacm_test::enter_own_node();
  return RUN_ALL_TESTS();
}
