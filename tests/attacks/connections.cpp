// Makes and accepts connections.
//
//     connections serve PORT BACKLOG MS    takes a request each MS milliseconds: accepts it if
//                                          its private data begins with "friend", else rejects it
//     connections connect ADDRESS PORT N   connects and disconnects N times
//     connections hold ADDRESS PORT        connects, and says if the connection ends
//
// Each prints a line for each event.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kFriend = "friend";

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

rdma_event_channel* channel() {
  static rdma_event_channel* const one = rdma_create_event_channel();
  if (one == nullptr) fail("rdma_create_event_channel");
  return one;
}

sockaddr_in address_of(const char* ip, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) fail(ip);
  return address;
}

void make_queue_pair(rdma_cm_id* id) {
  ibv_qp_init_attr attributes{};
  attributes.cap = {.max_send_wr = 4,
                    .max_recv_wr = 4,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  attributes.qp_type = IBV_QPT_RC;
  if (rdma_create_qp(id, nullptr, &attributes) != 0) fail("rdma_create_qp");
}

rdma_conn_param parameters() {
  rdma_conn_param result{};
  result.private_data = kFriend.data();
  result.private_data_len = kFriend.size();
  result.retry_count = 7;
  return result;
}

struct Happened {
  rdma_cm_event_type type;
  rdma_cm_id* id;
  bool is_friend;
};

Happened next() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel(), &event) != 0) fail("rdma_get_cm_event");
  const auto& told = event->param.conn;
  const bool is_friend = told.private_data != nullptr && told.private_data_len >= kFriend.size() &&
                         std::memcmp(told.private_data, kFriend.data(), kFriend.size()) == 0;
  const Happened happened{event->event, event->id, is_friend};
  rdma_ack_cm_event(event);
  return happened;
}

void expect(rdma_cm_event_type type) {
  const Happened happened = next();
  if (happened.type == type) return;
  std::printf("%s instead of %s\n", rdma_event_str(happened.type), rdma_event_str(type));
  std::exit(1);
}

void destroy(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

void serve(const char* port, int backlog, int milliseconds) {
  rdma_cm_id* listener = nullptr;
  sockaddr_in any = address_of("0.0.0.0", port);
  if (rdma_create_id(channel(), &listener, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
  if (rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)) != 0) fail("rdma_bind_addr");
  if (rdma_listen(listener, backlog) != 0) fail("rdma_listen");
  std::puts("listens");
  for (;;) {
    const Happened happened = next();
    if (happened.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      if (!happened.is_friend) {
        rdma_reject(happened.id, nullptr, 0);
        destroy(happened.id);
        std::puts("rejected a stranger");
        continue;
      }
      rdma_conn_param wanted = parameters();
      make_queue_pair(happened.id);
      if (rdma_accept(happened.id, &wanted) != 0) std::perror("rdma_accept");
    } else if (happened.type == RDMA_CM_EVENT_TIMEWAIT_EXIT) {
      destroy(happened.id);
    } else {
      if (happened.type == RDMA_CM_EVENT_DISCONNECTED) rdma_disconnect(happened.id);
      std::puts(rdma_event_str(happened.type));
    }
  }
}

rdma_cm_id* connect(const char* ip, const char* port) {
  rdma_cm_id* id = nullptr;
  sockaddr_in to = address_of(ip, port);
  if (rdma_create_id(channel(), &id, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000) != 0)
    fail("rdma_resolve_addr");
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(id, 2000) != 0) fail("rdma_resolve_route");
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_queue_pair(id);
  rdma_conn_param wanted = parameters();
  const auto begin = Clock::now();
  if (rdma_connect(id, &wanted) != 0) fail("rdma_connect");
  expect(RDMA_CM_EVENT_ESTABLISHED);
  std::printf("connected after %.1f ms\n",
              std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  return id;
}

}  // namespace

int main(int count, char** words) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string_view what = count > 1 ? words[1] : "";
  if (what == "serve" && count == 5) serve(words[2], std::atoi(words[3]), std::atoi(words[4]));
  if (what == "connect" && count == 5) {
    for (int left = std::atoi(words[4]); left > 0; --left) {
      rdma_cm_id* const id = connect(words[2], words[3]);
      if (rdma_disconnect(id) != 0) fail("rdma_disconnect");
      expect(RDMA_CM_EVENT_DISCONNECTED);
      destroy(id);
    }
    return 0;
  }
  if (what == "hold" && count == 4) {
    static_cast<void>(connect(words[2], words[3]));
    std::puts(rdma_event_str(next().type));
    return 0;
  }
  std::fputs("connections serve PORT BACKLOG MS | connect ADDRESS PORT N | hold ADDRESS PORT\n",
             stderr);
  return 2;
}
