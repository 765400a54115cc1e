// Connections between two hosts through rdma_cm, InfiniBand's or iWARP's: private data in both
// directions, a rejection with its reason, no listener at the port, and an end by either side. One
// program is the server, the other names its host:
//
//   peer_cm [-p PORT] [HOST]
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include "tests/peers/manager.h"

namespace {

using peers::check;
using peers::Event;
using peers::Manager;

constexpr int kRejectedByProgram = 28;  // IBA 12.6.7.2, "consumer reject".
constexpr int kNoSuchService = 8;
constexpr const char* kHello = "what the active side says";
constexpr const char* kWelcome = "what the passive side says";
constexpr const char* kNo = "why not";

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

/// Private data always has the full length of the message's field, with the words at the start.
void expect_words(const Event& event, const char* words) {
  check(event.private_data.compare(0, std::strlen(words), words) == 0,
        std::string("private data: ") + words);
}

void create_queue_pair(rdma_cm_id* id) {
  ibv_qp_init_attr options{};
  options.qp_type = IBV_QPT_RC;
  options.cap = endpoint::capacity(4, 4);
  check(rdma_create_qp(id, nullptr, &options) == 0, "rdma_create_qp");
}

/// Returns an id that is ready to connect.
rdma_cm_id* prepare(const Manager& manager, const char* host, int port) {
  rdma_cm_id* const id = manager.resolve(host, port);
  create_queue_pair(id);
  return id;
}

rdma_cm_id* ask(const Manager& manager, const char* host, int port) {
  rdma_cm_id* const id = prepare(manager, host, port);
  rdma_conn_param parameters = with(kHello);
  check(rdma_connect(id, &parameters) == 0, "rdma_connect");
  return id;
}

/// IBA's reason; over iWARP, which has none, an errno value, and Linux's siw has another one.
void expect_rejection(const Event& event, int reason) {
  const bool is_iwarp = peers::is_iwarp(event.id->verbs);
  const int refused =
      peers::stack_of(event.id->verbs) == peers::Stack::siw ? -ECONNRESET : -ECONNREFUSED;
  check(event.status == (is_iwarp ? refused : reason), "reason of the rejection");
}

/// Linux's siw connects the TCP socket within rdma_connect.
void ask_nobody(const Manager& manager, const char* host, int port) {
  rdma_cm_id* const id = prepare(manager, host, port);
  rdma_conn_param parameters = with(kHello);
  const bool is_refused = rdma_connect(id, &parameters) != 0;
  if (is_refused) {
    check(peers::is_iwarp(id->verbs) && errno == ECONNREFUSED, "rdma_connect to nobody");
  } else {
    expect_rejection(manager.expect(RDMA_CM_EVENT_REJECTED), kNoSuchService);
  }
  Manager::destroy(id);
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
  expect_rejection(rejected, kRejectedByProgram);
  expect_words(rejected, kNo);
  Manager::destroy(id);
  pass("the passive side rejects");

  id = ask(manager, host, port);
  manager.expect(RDMA_CM_EVENT_ESTABLISHED);
  manager.expect(RDMA_CM_EVENT_DISCONNECTED);
  Manager::destroy(id);
  pass("the passive side destroys its id");

  ask_nobody(manager, host, port + 1);
  pass("nobody listens");
}

Event asked(const Manager& manager) {
  Event event = manager.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  expect_words(event, kHello);
  return event;
}

rdma_cm_id* accept_one(const Manager& manager) {
  rdma_cm_id* const id = asked(manager).id;
  create_queue_pair(id);
  rdma_conn_param parameters = with(kWelcome);
  check(rdma_accept(id, &parameters) == 0, "rdma_accept");
  manager.expect(RDMA_CM_EVENT_ESTABLISHED);
  return id;
}

void be_server(int port) {
  const Manager manager;
  const auto listeners = manager.listen(port);

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
  id = accept_one(manager);
  usleep(200'000);  // Linux's siw treats an end that comes with the answer as a rejection.
  Manager::destroy(id);
  sleep(2);  // Answers repeated messages, as a server that continues would.
  for (rdma_cm_id* listener : listeners) Manager::destroy(listener);
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
