#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <netdb.h>
#include <rdma/rdma_cma.h>

/// `greeter server ADDRESS PORT` accepts all connections by rdma_cm, without end. `greeter client
/// ADDRESS PORT` connects, disconnects, and ends.
namespace {

void check(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(1);
}

void create_queue_pair(rdma_cm_id* id) {
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  check(rdma_create_qp(id, nullptr, &wanted) == 0, "rdma_create_qp");
}

struct Event {
  explicit Event(rdma_event_channel* channel) {
    check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    id = event->id;
    type = event->event;
    std::printf("%s, status %d\n", rdma_event_str(type), event->status);
    std::fflush(stdout);
    rdma_ack_cm_event(event);
  }
  rdma_cm_event* event = nullptr;
  rdma_cm_id* id = nullptr;
  rdma_cm_event_type type{};
};

void expect(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  if (Event(channel).type != wanted) std::exit(1);
}

void serve(rdma_event_channel* channel, rdma_cm_id* id, sockaddr* address) {
  check(rdma_bind_addr(id, address) == 0, "rdma_bind_addr");
  check(rdma_listen(id, 0) == 0, "rdma_listen");
  rdma_conn_param offer{};
  for (;;) {
    const Event event(channel);
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      create_queue_pair(event.id);
      // The peer may have closed meanwhile.
      if (rdma_accept(event.id, &offer) == 0) continue;
    } else if (event.type == RDMA_CM_EVENT_DISCONNECTED) {
      rdma_disconnect(event.id);
    } else {
      continue;
    }
    rdma_destroy_qp(event.id);
    rdma_destroy_id(event.id);
  }
}

void connect(rdma_event_channel* channel, rdma_cm_id* id, sockaddr* address) {
  constexpr int kPatienceMs = 2000;
  check(rdma_resolve_addr(id, nullptr, address, kPatienceMs) == 0, "rdma_resolve_addr");
  expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(id, kPatienceMs) == 0, "rdma_resolve_route");
  expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  create_queue_pair(id);
  rdma_conn_param offer{};
  offer.retry_count = 7;
  check(rdma_connect(id, &offer) == 0, "rdma_connect");
  expect(channel, RDMA_CM_EVENT_ESTABLISHED);
  check(rdma_disconnect(id) == 0, "rdma_disconnect");
  expect(channel, RDMA_CM_EVENT_DISCONNECTED);
}

}  // namespace

int main(int argc, char** argv) {
  check(argc == 4, "greeter server|client ADDRESS PORT");
  addrinfo* found = nullptr;
  check(getaddrinfo(argv[2], argv[3], nullptr, &found) == 0, argv[2]);
  rdma_event_channel* const channel = rdma_create_event_channel();
  check(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  const bool is_server = std::strcmp(argv[1], "server") == 0;
  is_server ? serve(channel, id, found->ai_addr) : connect(channel, id, found->ai_addr);
  return 0;
}
