// bench_registration [MIB]: what registering costs, and the use of memory that does not move.
// Milliseconds of ibv_reg_mr and ibv_dereg_mr of touched memory that no peer uses; microseconds of
// a cycle of one page, the first and the last hundred of 10,000; microseconds of a WRITE of 8
// bytes, and GB/s of WRITEs of 1 MiB, into a region of another process that never moves, because it
// is advised (MADV_DONTDUMP), beside memcpy.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/endpoint.h"

namespace {

using Clock = std::chrono::steady_clock;
using endpoint::check;

double microseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

char* touched(std::size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  check(memory != MAP_FAILED, "mmap");
  std::memset(memory, 1, bytes);
  return static_cast<char*>(memory);
}

ibv_mr* enrol(const endpoint::Device& device, void* at, std::size_t bytes) {
  ibv_mr* const region = ibv_reg_mr(device.pd, at, bytes, endpoint::kAccess);
  check(region != nullptr, "ibv_reg_mr");
  return region;
}

void whole(const endpoint::Device& device, std::size_t bytes) {
  char* const memory = touched(bytes);
  std::vector<double> begins, ends;
  for (int i = 0; i < 7; ++i) {
    auto begin = Clock::now();
    ibv_mr* const region = enrol(device, memory, bytes);
    begins.push_back(microseconds(begin) / 1e3);
    begin = Clock::now();
    check(ibv_dereg_mr(region) == 0, "ibv_dereg_mr");
    ends.push_back(microseconds(begin) / 1e3);
  }
  std::printf("%zu MiB: register %.2f ms, deregister %.2f ms\n", bytes >> 20, median(begins),
              median(ends));
  munmap(memory, bytes);
}

void cycles(const endpoint::Device& device) {
  constexpr int kCycles = 10'000;
  constexpr int kPart = 100;
  char* const memory = touched(4096);
  double first = 0, last = 0;
  for (int i = 0; i < kCycles; ++i) {
    const auto begin = Clock::now();
    check(ibv_dereg_mr(enrol(device, memory, 4096)) == 0, "ibv_dereg_mr");
    if (i < kPart) first += microseconds(begin);
    if (i >= kCycles - kPart) last += microseconds(begin);
  }
  std::printf("a cycle of one page: %.2f us the first hundred, %.2f us the last of %d\n",
              first / kPart, last / kPart, kCycles);
}

struct Shared {
  volatile std::uint32_t qpn[2];
  volatile std::uint32_t rkey;
  volatile std::uint64_t address;
  volatile int at_work;
};

void own_memory(Shared& shared) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  constexpr std::size_t kBytes = 2 << 20;
  const endpoint::Device device(16);
  char* const memory = touched(kBytes);
  check(madvise(memory, kBytes, MADV_DONTDUMP) == 0, "madvise");
  shared.rkey = enrol(device, memory, kBytes)->rkey;
  shared.address = reinterpret_cast<std::uint64_t>(memory);
  ibv_qp* const qp = device.create_queue_pair(IBV_QPT_RC, 16, 16);
  device.initialise(qp);
  shared.qpn[1] = qp->qp_num;
  while (shared.qpn[0] == 0) usleep(1000);
  device.connect_initialised(qp, shared.qpn[0], IBV_MTU_4096);
  shared.at_work = 1;
  for (;;) pause();
}

double time_of(const endpoint::Device& device, ibv_qp* qp, const Shared& shared, ibv_sge segment,
               int count) {
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = shared.address;
  request.wr.rdma.rkey = shared.rkey;
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    endpoint::post_send(qp, request, segment);
    device.completions(1);
  }
  return microseconds(begin) / count;
}

void use(Shared& shared) {
  const endpoint::Device device(16);
  constexpr std::size_t kLarge = 1 << 20;
  endpoint::Buffer buffer(device, kLarge);
  ibv_qp* const qp = device.create_queue_pair(IBV_QPT_RC, 16, 16);
  device.initialise(qp);
  shared.qpn[0] = qp->qp_num;
  while (shared.at_work == 0) usleep(1000);
  device.connect_initialised(qp, shared.qpn[1], IBV_MTU_4096);
  char* const to = touched(kLarge);
  std::vector<double> small, large, copied;
  for (int i = 0; i < 15; ++i) {
    small.push_back(time_of(device, qp, shared, buffer.segment(8), 2000));
    large.push_back(kLarge / time_of(device, qp, shared, buffer.segment(kLarge), 100) / 1e3);
    const auto begin = Clock::now();
    for (int k = 0; k < 100; ++k) std::memcpy(to, buffer.bytes.data(), kLarge);
    copied.push_back(kLarge / (microseconds(begin) / 100) / 1e3);
  }
  std::printf("memory that does not move: 8 bytes %.2f us; 1 MiB %.2f GB/s; memcpy %.2f GB/s\n",
              median(small), median(large), median(copied));
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t mib = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  auto& shared = *new (touched(sizeof(Shared), MAP_SHARED | MAP_ANONYMOUS)) Shared{};
  const pid_t owner = fork();
  if (owner == 0) own_memory(shared);
  {
    const endpoint::Device device(1);
    whole(device, mib << 20);
    cycles(device);
  }
  use(shared);
  kill(owner, SIGKILL);
}
