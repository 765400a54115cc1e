#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

/// `cm_timeout ADDRESS`: connects to itself by rdma_cm at its own address, and prints the device's
/// local_ca_ack_delay and the ACK time-outs of both queue pairs.
namespace {

void must(bool done, const char* what) {
  if (done) return;
  std::printf("%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

rdma_cm_id* await(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  must(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
  must(event->event == wanted, rdma_event_str(event->event));
  rdma_cm_id* const id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

int timeout_of(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  must(ibv_query_qp(qp, &attributes, IBV_QP_TIMEOUT, &initial) == 0, "ibv_query_qp");
  return attributes.timeout;
}

void create(rdma_cm_id* id) {
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = 1;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  must(rdma_create_qp(id, nullptr, &wanted) == 0, "rdma_create_qp");
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kTimeoutMs = 5000;
  must(argc == 2, "one argument: the own address");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  must(inet_pton(AF_INET, argv[1], &address.sin_addr) == 1, argv[1]);
  auto* const to = reinterpret_cast<sockaddr*>(&address);
  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id *listener = nullptr, *client = nullptr;
  must(rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  must(rdma_bind_addr(listener, to) == 0, "rdma_bind_addr");
  must(rdma_listen(listener, 1) == 0, "rdma_listen");
  address.sin_port = rdma_get_src_port(listener);
  must(rdma_create_id(channel, &client, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  must(rdma_resolve_addr(client, nullptr, to, kTimeoutMs) == 0, "rdma_resolve_addr");
  await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  must(rdma_resolve_route(client, kTimeoutMs) == 0, "rdma_resolve_route");
  await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  create(client);
  must(rdma_connect(client, nullptr) == 0, "rdma_connect");
  rdma_cm_id* const server = await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  create(server);
  must(rdma_accept(server, nullptr) == 0, "rdma_accept");
  await(channel, RDMA_CM_EVENT_ESTABLISHED);
  ibv_device_attr device{};
  must(ibv_query_device(client->verbs, &device) == 0, "ibv_query_device");
  std::printf("%d %d %d\n", int{device.local_ca_ack_delay}, timeout_of(client->qp),
              timeout_of(server->qp));
  return 0;
}
