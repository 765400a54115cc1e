// Connections between two hosts through rdma_cm: private data each way, a rejection with its
// reason, nobody at the port, and an end by either side. One program serves, the other names its
// host:
//
//   peer_cm [-p PORT] [HOST]
#include <cstdlib>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

namespace {

constexpr int kTimeoutMs = 10'000;
constexpr int kRejectedByProgram = 28;  // IBA 12.6.7.2, "consumer reject".
constexpr int kNoSuchService = 8;
constexpr const char* kHello = "what the active side says";
constexpr const char* kWelcome = "what the passive side says";
constexpr const char* kNo = "why not";

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}
void check(bool good, const std::string& what) {
  if (!good) fail(what);
}
void pass(const char* what) {
  std::printf("passed: %s\n", what);
  std::fflush(stdout);
}

rdma_conn_param with(const char* private_data) {
  rdma_conn_param parameters{};
  parameters.private_data = private_data;
  parameters.private_data_len = static_cast<std::uint8_t>(std::strlen(private_data));
  parameters.responder_resources = 1;
  parameters.initiator_depth = 1;
  parameters.retry_count = 6;
  parameters.rnr_retry_count = 7;
  return parameters;
}

/// What an event tells, after it was acknowledged.
struct Event {
  rdma_cm_id* id;
  int status;
  std::string private_data;
};

struct Manager {
  rdma_event_channel* channel = rdma_create_event_channel();

  Manager() { check(channel != nullptr, "rdma_create_event_channel"); }
  rdma_cm_id* create_id() const {
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    return id;
  }
  static void create_queue_pair(rdma_cm_id* id) {
    ibv_qp_init_attr options{};
    options.qp_type = IBV_QPT_RC;
    options.cap.max_send_wr = options.cap.max_recv_wr = 4;
    options.cap.max_send_sge = options.cap.max_recv_sge = 1;
    check(rdma_create_qp(id, nullptr, &options) == 0, "rdma_create_qp");
  }
  Event expect(rdma_cm_event_type type) const {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    if (event->event != type) {
      std::fprintf(stderr, "%s (status %d), expected %s\n", rdma_event_str(event->event),
                   event->status, rdma_event_str(type));
      std::exit(1);
    }
    Event told{event->id, event->status, {}};
    const rdma_conn_param& with = event->param.conn;
    if (with.private_data != nullptr) {
      told.private_data.assign(static_cast<const char*>(with.private_data), with.private_data_len);
    }
    rdma_ack_cm_event(event);
    return told;
  }
  static void destroy(rdma_cm_id* id) {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
  }
};

/// Private data is as long as the message has room for; what was said comes first.
void expect_words(const Event& event, const char* words) {
  check(event.private_data.compare(0, std::strlen(words), words) == 0,
        std::string("private data: ") + words);
}

sockaddr_storage address_of(const char* host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  check(error == 0, std::string(host) + ": " + gai_strerror(error));
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

/// An id that has asked for a connection.
rdma_cm_id* ask(const Manager& manager, const char* host, int port) {
  rdma_cm_id* const id = manager.create_id();
  sockaddr_storage address = address_of(host, port);
  check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), kTimeoutMs) == 0,
        "rdma_resolve_addr");
  manager.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  check(rdma_resolve_route(id, kTimeoutMs) == 0, "rdma_resolve_route");
  manager.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  Manager::create_queue_pair(id);
  rdma_conn_param parameters = with(kHello);
  check(rdma_connect(id, &parameters) == 0, "rdma_connect");
  return id;
}

void be_client(const char* host, int port) {
  const Manager manager;
  for (const char* who : {"the active side ends the connection", "the passive side ends it"}) {
    rdma_cm_id* const id = ask(manager, host, port);
    expect_words(manager.expect(RDMA_CM_EVENT_ESTABLISHED), kWelcome);
    if (std::strstr(who, "active") != nullptr) check(rdma_disconnect(id) == 0, "rdma_disconnect");
    manager.expect(RDMA_CM_EVENT_DISCONNECTED);
    Manager::destroy(id);
    pass(who);
  }
  rdma_cm_id* id = ask(manager, host, port);
  const Event rejected = manager.expect(RDMA_CM_EVENT_REJECTED);
  check(rejected.status == kRejectedByProgram, "reason of the rejection");
  expect_words(rejected, kNo);
  Manager::destroy(id);
  pass("the passive side rejects");

  id = ask(manager, host, port);
  manager.expect(RDMA_CM_EVENT_ESTABLISHED);
  manager.expect(RDMA_CM_EVENT_DISCONNECTED);
  Manager::destroy(id);
  pass("the passive side destroys its id");

  id = ask(manager, host, port + 1);
  check(manager.expect(RDMA_CM_EVENT_REJECTED).status == kNoSuchService, "reason: nobody listens");
  Manager::destroy(id);
  pass("nobody listens");
}

Event asked(const Manager& manager) {
  Event event = manager.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  expect_words(event, kHello);
  return event;
}

rdma_cm_id* accept_one(const Manager& manager) {
  rdma_cm_id* const id = asked(manager).id;
  Manager::create_queue_pair(id);
  rdma_conn_param parameters = with(kWelcome);
  check(rdma_accept(id, &parameters) == 0, "rdma_accept");
  manager.expect(RDMA_CM_EVENT_ESTABLISHED);
  return id;
}

void be_server(int port) {
  const Manager manager;
  rdma_cm_id* const listener = manager.create_id();
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<std::uint16_t>(port));
  check(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)) == 0, "rdma_bind_addr");
  check(rdma_listen(listener, 4) == 0, "rdma_listen");

  rdma_cm_id* id = accept_one(manager);
  manager.expect(RDMA_CM_EVENT_DISCONNECTED);
  Manager::destroy(id);
  id = accept_one(manager);
  check(rdma_disconnect(id) == 0, "rdma_disconnect");
  manager.expect(RDMA_CM_EVENT_DISCONNECTED);
  Manager::destroy(id);

  id = asked(manager).id;
  check(rdma_reject(id, kNo, static_cast<std::uint8_t>(std::strlen(kNo))) == 0, "rdma_reject");
  Manager::destroy(id);
  Manager::destroy(accept_one(manager));
  sleep(2);  // Answers what is said again, as a server that goes on would.
  Manager::destroy(listener);
}

}  // namespace

int main(int argc, char** argv) {
  int port = 18700;
  for (int option; (option = getopt(argc, argv, "p:")) != -1;) {
    if (option != 'p') return 2;
    port = std::atoi(optarg);
  }
  if (optind < argc) {
    be_client(argv[optind], port);
  } else {
    be_server(port);
  }
  return 0;
}
