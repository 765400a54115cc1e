// `cycles N [NAME]`: makes and destroys each kind of object N times. What the process holds, its
// descriptors, mappings and memory, is the same afterwards as after the first of them. Prints the
// time of the first and of the last hundred cycles. Ends with 1 at the first that leaves something.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"

namespace {

using Clock = std::chrono::steady_clock;
using endpoint::check;

struct Held {
  long descriptors = 0, mappings = 0, kib = 0;
};

Held held_now() {
  Held held;
  const auto files = std::filesystem::directory_iterator("/proc/self/fd");
  held.descriptors = std::distance(begin(files), end(files));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++held.mappings;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) held.kib = std::atol(line.c_str() + 6);
  }
  return held;
}

/// What the pairs below are made with.
struct Things {
  endpoint::Device device{64};
  std::vector<char> small = std::vector<char>(256);
  char* large = static_cast<char*>(
      mmap(nullptr, kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  static constexpr std::size_t kLarge = 4 << 20;

  Things() {
    check(large != MAP_FAILED, "mmap");
    std::memset(large, 1, kLarge);
  }
  ibv_context* context() const { return device.context; }
  ibv_qp_init_attr queue_pair_of(ibv_qp_type type) const {
    ibv_qp_init_attr options{};
    options.send_cq = options.recv_cq = device.cq;
    options.qp_type = type;
    options.cap = endpoint::capacity(8, 8);
    return options;
  }
};

/// One object: made and destroyed. Returns false if this device does not have the kind.
using Cycle = std::function<bool(Things&, unsigned number)>;

bool region(Things& things, unsigned number) {
  // Now here, now there.
  const std::size_t at = number * 7919u % 500 * 4096;
  const std::size_t bytes = 1 + number * 104'729u % 65'536;
  ibv_mr* const mr = ibv_reg_mr(things.device.pd, things.large + at, bytes, endpoint::kAccess);
  check(mr != nullptr, "ibv_reg_mr");
  check(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
  return true;
}
bool small_region(Things& things, unsigned) {
  ibv_mr* const mr =
      ibv_reg_mr(things.device.pd, things.small.data(), things.small.size(), endpoint::kAccess);
  check(mr != nullptr, "ibv_reg_mr");
  check(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
  return true;
}
bool window(Things& things, unsigned) {
  ibv_mw* const mw = ibv_alloc_mw(things.device.pd, IBV_MW_TYPE_2);
  if (mw == nullptr) return false;
  check(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
  return true;
}
bool domain(Things& things, unsigned) {
  ibv_pd* const pd = ibv_alloc_pd(things.context());
  check(pd != nullptr, "ibv_alloc_pd");
  check(ibv_dealloc_pd(pd) == 0, "ibv_dealloc_pd");
  return true;
}
bool completion_queue(Things& things, unsigned) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(things.context());
  check(channel != nullptr, "ibv_create_comp_channel");
  ibv_cq* const cq = ibv_create_cq(things.context(), 100, nullptr, channel, 0);
  check(cq != nullptr, "ibv_create_cq");
  check(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
  check(ibv_destroy_comp_channel(channel) == 0, "ibv_destroy_comp_channel");
  return true;
}
bool shared_receives(Things& things, unsigned) {
  ibv_srq_init_attr options{};
  options.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
  ibv_srq* const srq = ibv_create_srq(things.device.pd, &options);
  if (srq == nullptr) return false;
  check(ibv_destroy_srq(srq) == 0, "ibv_destroy_srq");
  return true;
}
bool queue_pair(Things& things, unsigned) {
  ibv_qp_init_attr options = things.queue_pair_of(IBV_QPT_RC);
  ibv_qp* const qp = ibv_create_qp(things.device.pd, &options);
  check(qp != nullptr, "ibv_create_qp");
  check(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
  return true;
}
bool connected_queue_pair(Things& things, unsigned) {
  ibv_device_attr device{};
  check(ibv_query_device(things.context(), &device) == 0, "ibv_query_device");
  if (things.context()->device->transport_type == IBV_TRANSPORT_IWARP) return false;
  ibv_qp_init_attr options = things.queue_pair_of(IBV_QPT_RC);
  ibv_qp* const qp = ibv_create_qp(things.device.pd, &options);
  check(qp != nullptr, "ibv_create_qp");
  things.device.initialise(qp);
  things.device.connect_initialised(qp, qp->qp_num, IBV_MTU_1024);
  check(ibv_destroy_qp(qp) == 0, "ibv_destroy_qp");
  return true;
}
bool address_handle(Things& things, unsigned) {
  ibv_ah_attr path = things.device.path_to_self();
  ibv_ah* const ah = ibv_create_ah(things.device.pd, &path);
  if (ah == nullptr) return false;
  check(ibv_destroy_ah(ah) == 0, "ibv_destroy_ah");
  return true;
}
bool identifier(Things&, unsigned) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  check(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
  rdma_destroy_event_channel(channel);
  return true;
}
bool device_memory(Things& things, unsigned) {
  ibv_alloc_dm_attr options{};
  options.length = 8192;
  ibv_dm* const dm = ibv_alloc_dm(things.context(), &options);
  if (dm == nullptr) return false;
  check(ibv_free_dm(dm) == 0, "ibv_free_dm");
  return true;
}
bool multicast_group(Things& things, unsigned) {
  ibv_qp_init_attr options = things.queue_pair_of(IBV_QPT_UD);
  ibv_qp* const datagrams = ibv_create_qp(things.device.pd, &options);
  if (datagrams == nullptr) return false;  // iWARP has none.
  things.device.initialise(datagrams);
  ibv_gid group{};
  const unsigned char name[] = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3};
  std::memcpy(group.raw, name, sizeof name);
  const bool is_attached = ibv_attach_mcast(datagrams, &group, 0) == 0;
  if (is_attached) check(ibv_detach_mcast(datagrams, &group, 0) == 0, "ibv_detach_mcast");
  check(ibv_destroy_qp(datagrams) == 0, "ibv_destroy_qp");
  return is_attached;
}
bool xrc_domain(Things& things, unsigned) {
  ibv_xrcd_init_attr options{};
  options.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  options.fd = -1;
  options.oflags = O_CREAT;
  ibv_xrcd* const xrcd = ibv_open_xrcd(things.context(), &options);
  if (xrcd == nullptr) return false;
  check(ibv_close_xrcd(xrcd) == 0, "ibv_close_xrcd");
  return true;
}
bool context(Things&, unsigned) {
  check(ibv_close_device(endpoint::Device::open_first()) == 0, "ibv_close_device");
  return true;
}

struct Pair {
  const char* name;
  Cycle cycle;
  unsigned share = 1;  // Of the cycles: one in so many, where each takes long.
  long kib = 2048;     // By which the process may grow.
};
const Pair kPairs[] = {{"region", region},
                       {"small-region", small_region},
                       {"window", window},
                       {"domain", domain},
                       {"completion-queue", completion_queue},
                       {"shared-receives", shared_receives},
                       // Each of 16,384 numbers is used in turn, and then has a page of records.
                       {"queue-pair", queue_pair, 1, 20'000},
                       {"connected-queue-pair", connected_queue_pair, 10, 20'000},
                       {"address-handle", address_handle},
                       {"identifier", identifier},
                       {"device-memory", device_memory},
                       {"multicast-group", multicast_group, 10},
                       {"xrc-domain", xrc_domain},
                       {"context", context}};

/// Returns false if the process holds more than before.
bool run(const Pair& pair, Things& things, unsigned cycles) {
  constexpr unsigned kFirst = 100;
  constexpr long kMappings = 8;  // Of the C library's heaps, and the like.
  const auto take = [&](unsigned begin, unsigned end) {
    const auto start = Clock::now();
    for (unsigned i = begin; i < end; ++i) {
      if (!pair.cycle(things, i)) return -1.0;
    }
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / (end - begin);
  };
  const double first = take(0, kFirst);
  if (first < 0) {
    std::printf("%-21s not on this device\n", pair.name);
    return true;
  }
  const Held before = held_now();
  const unsigned rest = std::max(cycles / pair.share, 2 * kFirst);
  take(kFirst, rest - kFirst);
  const double last = take(rest - kFirst, rest);
  const Held after = held_now();
  std::printf(
      "%-21s %8.1f us the first, %8.1f us the last; %+ld descriptors, %+ld mappings, "
      "%+ld KiB\n",
      pair.name, first, last, after.descriptors - before.descriptors,
      after.mappings - before.mappings, after.kib - before.kib);
  std::fflush(stdout);
  return after.descriptors <= before.descriptors && after.mappings <= before.mappings + kMappings &&
         after.kib <= before.kib + pair.kib;
}

}  // namespace

int main(int argc, char** argv) {
  const auto cycles = static_cast<unsigned>(argc > 1 ? std::atoi(argv[1]) : 500);
  const std::string only = argc > 2 ? argv[2] : "";
  Things things;
  bool is_flat = true;
  for (const Pair& pair : kPairs) {
    if (!only.empty() && only != pair.name) continue;
    if (run(pair, things, cycles)) continue;
    std::printf("%s: cycles leave something behind\n", pair.name);
    is_flat = false;
  }
  return is_flat ? 0 : 1;
}
