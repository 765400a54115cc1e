// bench_threads COUNT SECONDS: COUNT threads, each with its own queue pair and completion queue,
// write 8 bytes at a time in lists of 64 for SECONDS. Prints the sum in millions of writes per
// second.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/programs/endpoint.h"

namespace {

using namespace endpoint;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kListLength = 64;
constexpr std::uint32_t kSends = 2 * kListLength;
constexpr std::size_t kMessageBytes = 8;
constexpr std::size_t kTargetAt = 4096;  // On a separate page.

/// A connected pair of queue pairs: the first writes to the memory of the second.
struct Couple {
  Device device;
  Buffer buffer;
  ibv_qp* writer;
  std::array<ibv_sge, 1> segment;
  std::array<ibv_send_wr, kListLength> list{};

  explicit Couple(const Device& shared)
      : device(shared), buffer(shared, 2 * kTargetAt), segment{buffer.segment(kMessageBytes)} {
    device.cq = ibv_create_cq(device.context, 2 * kSends, nullptr, nullptr, 0);
    check(device.cq != nullptr, "ibv_create_cq");
    writer = device.create_queue_pair(IBV_QPT_RC, kSends, 1);
    ibv_qp* const target = device.create_queue_pair(IBV_QPT_RC, kSends, 1);
    device.connect(writer, target->qp_num, IBV_MTU_4096);
    device.connect(target, writer->qp_num, IBV_MTU_4096);
    for (std::size_t i = 0; i < kListLength; ++i) {
      const bool is_last = i + 1 == kListLength;
      list[i].sg_list = segment.data();
      list[i].num_sge = 1;
      list[i].opcode = IBV_WR_RDMA_WRITE;
      list[i].send_flags = is_last ? IBV_SEND_SIGNALED : 0;
      list[i].wr.rdma.remote_addr = buffer.address() + kTargetAt;
      list[i].wr.rdma.rkey = buffer.region->rkey;
      list[i].next = is_last ? nullptr : &list[i + 1];
    }
  }
  Couple(const Couple&) = delete;
  Couple& operator=(const Couple&) = delete;

  void write_list() {
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(writer, list.data(), &bad) == 0, "ibv_post_send");
  }

  /// Writes until `deadline`, with two lists outstanding. Returns the number of writes.
  std::uint64_t write_until(Clock::time_point deadline) {
    std::uint64_t lists = 0;
    write_list();
    while (Clock::now() < deadline) {
      write_list();
      device.completions(1);
      ++lists;
    }
    device.completions(1);
    return (lists + 1) * kListLength;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 3 ? std::atoi(argv[1]) : 0;
  const double seconds = argc == 3 ? std::atof(argv[2]) : 0;
  if (count < 1 || seconds <= 0) {
    std::fprintf(stderr, "usage: bench_threads COUNT SECONDS\n");
    return 2;
  }
  const Device device(1);
  std::vector<std::unique_ptr<Couple>> couples;
  for (int i = 0; i < count; ++i) couples.push_back(std::make_unique<Couple>(device));

  std::atomic<std::uint64_t> writes = 0;
  const auto began = Clock::now();
  const auto deadline =
      began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  {
    std::vector<std::jthread> threads;
    for (auto& couple : couples) {
      threads.emplace_back(
          [&writes, &couple, deadline] { writes += couple->write_until(deadline); });
    }
  }
  const double elapsed = std::chrono::duration<double>(Clock::now() - began).count();
  std::printf("%.4f M/s\n", static_cast<double>(writes) / elapsed / 1e6);
  return 0;
}
