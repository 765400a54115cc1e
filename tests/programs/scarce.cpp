// `scarce WHAT`: opens the device and creates one of each object while a resource is scarce: the
// nth thread is not started, or there are descriptors for n more files. n grows until all calls
// succeed. Each time, a call fails at most with an errno, and everything works once there is enough
// again. `scarce rejoin`: see there.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"

namespace {

/// Call number `from` is refused, or all calls from there on.
struct Shortage {
  std::atomic<bool> is_on{false};
  std::atomic<long> calls{0};
  std::atomic<long> refused{0};
  long from = 1;
  bool lasts = false;

  void begin(long number, bool all) {
    from = number;
    lasts = all;
    is_on = true;
  }
  bool refuses() {
    if (!is_on) return false;
    const long number = ++calls;
    if (lasts ? number < from : number != from) return false;
    ++refused;
    return true;
  }
};
Shortage threads;

}  // namespace

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  if (threads.refuses()) return EAGAIN;
  static const auto next =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, body, argument);
}

}  // extern "C"

namespace {

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "scarce: %s (errno %d)\n", what, errno);
  std::_Exit(1);
}

/// One of each object, in the usual order of creation. Those that failed are null.
struct Objects {
  ibv_device** list = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_mr* region = nullptr;
  ibv_qp* pair[2] = {};
  rdma_event_channel* events = nullptr;
  rdma_cm_id* id = nullptr;
  std::array<std::uint8_t, 64 << 10> bytes{};

  /// Returns false after the first call that fails, which must log why.
  bool make() {
    for (const auto step : {&Objects::open, &Objects::make_queues, &Objects::connect,
                            &Objects::exchange, &Objects::manage}) {
      errno = 0;
      if ((this->*step)()) continue;
      if (errno == 0) give_up("a call failed without errno");
      return false;
    }
    return true;
  }

  void end() {
    const auto check = [](int result, const char* call) {
      if (result != 0) give_up(call);
    };
    if (id != nullptr) check(rdma_destroy_id(id), "rdma_destroy_id");
    if (events != nullptr) rdma_destroy_event_channel(events);
    for (ibv_qp* const one : pair) {
      if (one != nullptr) check(ibv_destroy_qp(one), "ibv_destroy_qp");
    }
    if (region != nullptr) check(ibv_dereg_mr(region), "ibv_dereg_mr");
    if (srq != nullptr) check(ibv_destroy_srq(srq), "ibv_destroy_srq");
    if (cq != nullptr) check(ibv_destroy_cq(cq), "ibv_destroy_cq");
    if (channel != nullptr) check(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
    if (pd != nullptr) check(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
    if (context != nullptr) check(ibv_close_device(context), "ibv_close_device");
    if (list != nullptr) ibv_free_device_list(list);
  }

 private:
  bool open() {
    int count = 0;
    list = ibv_get_device_list(&count);
    if (list == nullptr) return false;
    if (count == 0) return errno = ENODEV, false;  // As on a machine without a card.
    context = ibv_open_device(list[0]);
    if (context == nullptr) return false;
    pd = ibv_alloc_pd(context);
    return pd != nullptr;
  }
  bool make_queues() {
    channel = ibv_create_comp_channel(context);
    if (channel == nullptr) return false;
    cq = ibv_create_cq(context, 64, nullptr, channel, 0);
    if (cq == nullptr) return false;
    ibv_srq_init_attr wanted{};
    wanted.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
    srq = ibv_create_srq(pd, &wanted);
    if (srq == nullptr) return false;
    region = ibv_reg_mr(pd, bytes.data(), bytes.size(), endpoint::kAccess);
    if (region == nullptr) return false;
    ibv_qp_init_attr options{};
    options.send_cq = options.recv_cq = cq;
    options.srq = srq;
    options.qp_type = IBV_QPT_RC;
    options.cap = endpoint::capacity(16, 0);
    for (ibv_qp*& one : pair) {
      one = ibv_create_qp(pd, &options);
      if (one == nullptr) return false;
    }
    return true;
  }
  static bool holds(int result) {
    if (result > 0) errno = result;
    return result == 0;
  }
  bool connect() {
    ibv_gid gid{};
    if (ibv_query_gid(context, 1, endpoint::kGidIndex, &gid) != 0) return false;
    return to_rts(pair[0], pair[1]->qp_num, gid) && to_rts(pair[1], pair[0]->qp_num, gid);
  }
  static bool to_rts(ibv_qp* qp, std::uint32_t peer, const ibv_gid& gid) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = endpoint::kAccess;
    if (!holds(ibv_modify_qp(
            qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = gid;
    attr.ah_attr.grh.sgid_index = endpoint::kGidIndex;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    if (!holds(ibv_modify_qp(qp, &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                 IBV_QP_MIN_RNR_TIMER))) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.max_rd_atomic = 1;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    return holds(ibv_modify_qp(qp, &attr,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                                   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY));
  }
  /// Sends a message and waits for both completions.
  bool exchange() {
    ibv_sge segment{reinterpret_cast<std::uint64_t>(bytes.data()), 4096, region->lkey};
    ibv_recv_wr receive{};
    receive.sg_list = &segment;
    receive.num_sge = 1;
    ibv_recv_wr* bad_receive = nullptr;
    if (!holds(ibv_post_srq_recv(srq, &receive, &bad_receive))) return false;
    ibv_send_wr send{};
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    send.sg_list = &segment;
    send.num_sge = 1;
    ibv_send_wr* bad_send = nullptr;
    if (!holds(ibv_post_send(pair[0], &send, &bad_send))) return false;
    for (int left = 2; left > 0;) {
      ibv_wc completion{};
      const int polled = ibv_poll_cq(cq, 1, &completion);
      if (polled < 0) return errno = -polled, false;
      if (polled > 0 && completion.status != IBV_WC_SUCCESS) return errno = EIO, false;
      left -= polled;
    }
    return true;
  }
  bool manage() {
    events = rdma_create_event_channel();
    if (events == nullptr) return false;
    if (rdma_create_id(events, &id, nullptr, RDMA_PS_TCP) != 0) return false;
    sockaddr_in any{};
    any.sin_family = AF_INET;
    if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)) != 0) return false;
    return rdma_listen(id, 4) == 0;
  }
};

constexpr unsigned kSecondsMax = 30;  // Per life.
enum Outcome : int { kWentWell, kWrong, kFailedCleanly };

/// `begin` makes a resource scarce; `end` returns it and tells whether a call was refused.
template <typename Begin, typename End>
int live(Begin begin, End end) {
  static Objects first;
  begin();
  const bool all = first.make();
  if (end() == 0 && all) return kWentWell;
  first.end();
  static Objects again;
  if (!again.make()) give_up("with enough of it, a call fails");
  again.end();
  return kFailedCleanly;
}

/// One life for each n from 1, until one succeeds.
template <typename Life>
int walk(const char* what, Life life) {
  for (long n = 1;; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kSecondsMax);
      std::_Exit(life(n));
    }
    int status = 0;
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kWrong;
    if (code == kWrong) {
      std::fprintf(stderr, "scarce %s: number %ld ends the program (status %#x)\n", what, n,
                   static_cast<unsigned>(status));
      return 1;
    }
    if (code == kWentWell) {
      std::printf("%s: %ld\n", what, n - 1);
      return n > 1 ? 0 : 1;  // If not, no call was refused.
    }
  }
}

int live_without_thread(long n) {
  return live([&] { threads.begin(n, false); },
              [&] {
                threads.is_on = false;
                return threads.refused.load();
              });
}

int live_with_descriptors(long n) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit before = limit;
  const int lowest = dup(0);
  close(lowest);
  return live(
      [&] {
        limit.rlim_cur = static_cast<rlim_t>(lowest + n - 1);
        setrlimit(RLIMIT_NOFILE, &limit);
      },
      [&] {
        setrlimit(RLIMIT_NOFILE, &before);
        return 0L;
      });
}

/// 64 GiB of address space are not available.
int live_with_little_address_space() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  const rlimit before = limit;
  return live(
      [&] {
        limit.rlim_cur = rlim_t{1} << 30;
        setrlimit(RLIMIT_AS, &limit);
      },
      [&] {
        setrlimit(RLIMIT_AS, &before);
        return 0L;
      });
}

/// The agent is killed from outside while no thread can be started. The program reports it, and
/// connects to another agent when threads can be started.
int rejoin() {
  Objects objects;
  if (!objects.make()) give_up("making the objects");
  threads.begin(1, true);
  std::puts("scarce: without threads");
  std::fflush(stdout);
  while (threads.refused.load() < 2) usleep(1000);
  threads.is_on = false;
  std::puts("scarce: with threads");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  objects.end();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "address-space") return live_with_little_address_space() == kFailedCleanly ? 0 : 1;
  if (what == "threads") return walk("threads", live_without_thread);
  if (what == "descriptors") return walk("descriptors", live_with_descriptors);
  if (what == "rejoin") return rejoin();
  std::fprintf(stderr, "usage: scarce address-space | threads | descriptors | rejoin\n");
  return 2;
}
