// A bare verbs loop that does what a storage target does for a read: a request of 64 bytes by SEND,
// the data by RDMA WRITE, a response of 16 bytes by SEND. No protocol, no store, no bounds.
//
//   bench_storage_bare serve ADDRESS PORT
//   bench_storage_bare load ADDRESS PORT DEPTH BYTES SECONDS

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/resource.h>

namespace {

constexpr std::size_t kDiskBytes = 256 << 20;
constexpr int kDepthMax = 256;
constexpr std::size_t kRequestBytes = 64, kResponseBytes = 16;

struct Request {
  std::uint64_t offset, address;
  std::uint32_t bytes, key;
  std::uint32_t slot;
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

std::byte* memory_of(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  return static_cast<std::byte*>(memory);
}

struct End {
  rdma_cm_id* id = nullptr;
  ibv_cq* queue = nullptr;
  std::byte* messages = memory_of(kDepthMax * kRequestBytes);  // What is received.
  ibv_mr* messages_region = nullptr;

  void make() {
    queue = ibv_create_cq(id->verbs, 4 * kDepthMax, nullptr, nullptr, 0);
    if (queue == nullptr) fail("ibv_create_cq");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {2 * kDepthMax, kDepthMax, 1, 1, kRequestBytes};
    if (rdma_create_qp(id, nullptr, &wanted) != 0) fail("rdma_create_qp");
    messages_region =
        ibv_reg_mr(id->pd, messages, kDepthMax * kRequestBytes, IBV_ACCESS_LOCAL_WRITE);
    for (std::uint64_t i = 0; i < kDepthMax; ++i) receive(i);
  }
  void receive(std::uint64_t slot) {
    ibv_sge place{reinterpret_cast<std::uintptr_t>(messages + slot * kRequestBytes), kRequestBytes,
                  messages_region->lkey};
    ibv_recv_wr work{slot, nullptr, &place, 1}, *bad = nullptr;
    if (ibv_post_recv(id->qp, &work, &bad) != 0) fail("ibv_post_recv");
  }
};

rdma_event_channel* channel() {
  static rdma_event_channel* const one = rdma_create_event_channel();
  return one;
}

rdma_cm_id* await(rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel(), &event) != 0) fail("rdma_get_cm_event");
  if (event->event != wanted) {
    std::fprintf(stderr, "%s, not %s\n", rdma_event_str(event->event), rdma_event_str(wanted));
    std::exit(1);
  }
  rdma_cm_id* const id = event->id;
  rdma_ack_cm_event(event);
  return id;
}

sockaddr_in address_of(const char* ip, const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  inet_pton(AF_INET, ip, &address.sin_addr);
  return address;
}

void serve(const char* ip, const char* port) {
  rdma_cm_id* listener = nullptr;
  rdma_create_id(channel(), &listener, nullptr, RDMA_PS_TCP);
  sockaddr_in address = address_of(ip, port);
  if (rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&address)) != 0) fail("rdma_bind_addr");
  if (rdma_listen(listener, 1) != 0) fail("rdma_listen");
  End end;
  end.id = await(RDMA_CM_EVENT_CONNECT_REQUEST);
  end.make();
  std::byte* const disk = memory_of(kDiskBytes);
  ibv_mr* const region = ibv_reg_mr(end.id->pd, disk, kDiskBytes, IBV_ACCESS_LOCAL_WRITE);
  rdma_conn_param how{};
  how.rnr_retry_count = 7;
  if (rdma_accept(end.id, &how) != 0) fail("rdma_accept");
  await(RDMA_CM_EVENT_ESTABLISHED);
  for (std::uint64_t sent = 0;;) {
    ibv_wc found[16];
    const int count = ibv_poll_cq(end.queue, 16, found);
    for (int i = 0; i < count; ++i) {
      if (found[i].status != IBV_WC_SUCCESS) return;
      if (found[i].opcode != IBV_WC_RECV) continue;
      Request request;
      std::memcpy(&request, end.messages + found[i].wr_id * kRequestBytes, sizeof request);
      end.receive(found[i].wr_id);
      std::byte response[kResponseBytes]{};
      std::memcpy(response, &request.slot, sizeof request.slot);
      ibv_sge data{reinterpret_cast<std::uintptr_t>(disk + request.offset), request.bytes,
                   region->lkey};
      ibv_sge answer{reinterpret_cast<std::uintptr_t>(response), kResponseBytes, 0};
      ibv_send_wr write{}, send{}, *bad = nullptr;
      write.next = &send;
      write.sg_list = &data;
      write.num_sge = 1;
      write.opcode = IBV_WR_RDMA_WRITE;
      write.wr.rdma = {request.address, request.key};
      send.sg_list = &answer;
      send.num_sge = 1;
      send.opcode = IBV_WR_SEND;
      send.send_flags =
          IBV_SEND_INLINE | static_cast<unsigned>(++sent % 32 == 0 ? IBV_SEND_SIGNALED : 0);
      if (ibv_post_send(end.id->qp, &write, &bad) != 0) fail("ibv_post_send");
    }
  }
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void load(const char* ip, const char* port, std::uint32_t depth, std::uint32_t bytes,
          double seconds) {
  End end;
  rdma_create_id(channel(), &end.id, nullptr, RDMA_PS_TCP);
  sockaddr_in address = address_of(ip, port);
  if (rdma_resolve_addr(end.id, nullptr, reinterpret_cast<sockaddr*>(&address), 2000) != 0)
    fail("rdma_resolve_addr");
  await(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(end.id, 2000) != 0) fail("rdma_resolve_route");
  await(RDMA_CM_EVENT_ROUTE_RESOLVED);
  end.make();
  rdma_conn_param how{};
  how.rnr_retry_count = how.retry_count = 7;
  if (rdma_connect(end.id, &how) != 0) fail("rdma_connect");
  await(RDMA_CM_EVENT_ESTABLISHED);
  std::byte* const memory = memory_of(std::size_t{depth} * bytes);
  ibv_mr* const region = ibv_reg_mr(end.id->pd, memory, std::size_t{depth} * bytes,
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  std::mt19937_64 random(1);
  std::uint64_t sent = 0;
  const auto ask = [&](std::uint32_t slot) {
    Request request{random() % (kDiskBytes / bytes) * bytes,
                    reinterpret_cast<std::uintptr_t>(memory) + std::uint64_t{slot} * bytes, bytes,
                    region->rkey, slot};
    std::byte message[kRequestBytes]{};
    std::memcpy(message, &request, sizeof request);
    ibv_sge data{reinterpret_cast<std::uintptr_t>(message), kRequestBytes, 0};
    ibv_send_wr work{}, *bad = nullptr;
    work.sg_list = &data;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND;
    work.send_flags =
        IBV_SEND_INLINE | static_cast<unsigned>(++sent % 32 == 0 ? IBV_SEND_SIGNALED : 0);
    if (ibv_post_send(end.id->qp, &work, &bad) != 0) fail("ibv_post_send");
  };
  for (std::uint32_t slot = 0; slot < depth; ++slot) ask(slot);
  std::uint64_t done = 0;
  const auto run_until = [&](double until) {
    for (std::uint64_t turn = 0; turn % 256 != 0 || seconds_of(CLOCK_MONOTONIC) < until; ++turn) {
      ibv_wc found[16];
      const int count = ibv_poll_cq(end.queue, 16, found);
      for (int i = 0; i < count; ++i) {
        if (found[i].status != IBV_WC_SUCCESS) fail("a completion");
        if (found[i].opcode != IBV_WC_RECV) continue;
        std::uint32_t slot = 0;
        std::memcpy(&slot, end.messages + found[i].wr_id * kRequestBytes, sizeof slot);
        end.receive(found[i].wr_id);
        ++done;
        ask(slot);
      }
    }
  };
  run_until(seconds_of(CLOCK_MONOTONIC) + 0.2);
  done = 0;
  std::printf("measuring\n");
  std::fflush(stdout);
  const double begin = seconds_of(CLOCK_MONOTONIC);
  const double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  run_until(begin + seconds);
  std::printf("reads %llu seconds %.6f processor %.6f\n", static_cast<unsigned long long>(done),
              seconds_of(CLOCK_MONOTONIC) - begin, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before);
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "serve" && argc == 4) {
    serve(argv[2], argv[3]);
    return 0;
  }
  if (what == "load" && argc == 7) {
    load(argv[2], argv[3], static_cast<std::uint32_t>(std::atoi(argv[4])),
         static_cast<std::uint32_t>(std::atoi(argv[5])), std::atof(argv[6]));
    return 0;
  }
  std::fprintf(stderr, "see the first lines of bench/storage_bare.cpp\n");
  return 2;
}
