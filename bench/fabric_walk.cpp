#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/trace.h"
#include "fabric/data/fabric_for_test.h"
#include "fabric/data/virtual/virtual_net_for_test.h"

/// What it costs to move a packet across switches of the fabric: nanoseconds and instructions with
/// one thread that does everything, and what two processes reach. `--count`: only the
/// instructions; `--where`: their places, as steps.py reads them.
namespace {

using namespace verbatim;
using namespace verbatim::fabric;

constexpr std::uint32_t kSmallBytes = 64;
constexpr std::uint32_t kLargeBytes = 4096 + 26;
constexpr std::uint32_t kHeaderBytes = 8 + 12;  // LRH and BTH.
constexpr Qpn kNumber{1u << kQpnRangeBits};

/// A row of switches with a program at either end, both in this process.
struct Row {
  explicit Row(unsigned switches) : fabric(row_of_switches(switches, 2)) {}
  void post(std::uint32_t bytes) {
    const std::array pieces{ByteSpan(headers), ByteSpan(payload).first(bytes - kHeaderBytes)};
    if (!fabric.ends[0]->reserve(0, bytes)) return;
    fabric.ends[0]->post({.pieces = pieces, .dlid = fabric.lid(1), .destination = kNumber});
  }
  void push() { fabric.ends[0]->push(fabric.walker()); }
  std::size_t receive() {
    return fabric.ends[1]->receive(fabric.walker(), 0, [&](const IncomingPacket& incoming) {
      seen = std::to_integer<unsigned>(incoming.bytes.front());
    });
  }
  void move(unsigned batch) {
    for (unsigned i = 0; i < batch; ++i) post(kSmallBytes);
    push();
    receive();
  }
  TestFabric fabric;
  std::array<std::byte, kHeaderBytes> headers{};
  alignas(64) std::array<std::byte, kLargeBytes - kHeaderBytes> payload{};
  unsigned seen = 0;
};

/// The same in virtual time: events instead of gates.
struct VirtualRow {
  explicit VirtualRow(unsigned switches) : net(row_of_switches(switches, 2)) {}
  void move(unsigned batch) {
    for (unsigned i = 0; i < batch; ++i) net.send(0, 1, {.number = i}, kSmallBytes);
    net.push(0);
    net.run([&](std::size_t, Mark mark) { seen = mark.number; }, [](std::size_t) {});
  }
  VirtualNet net;
  unsigned seen = 0;
};

template <typename Row>
double nanoseconds(Row& row, unsigned batch) {
  constexpr unsigned kPackets = 16'000;
  double best = 1e9;
  for (int round = 0; round < 15; ++round) {
    const TimeNs begin = monotonic_now();
    for (unsigned i = 0; i < kPackets; i += batch) row.move(batch);
    best = std::min(best, static_cast<double>(monotonic_now() - begin) / kPackets);
  }
  return best;
}

template <typename Row>
trace::Places places(unsigned switches, unsigned batch) {
  return trace::parts_of([=] {
           Row row(switches);
           for (int i = 0; i < 100; ++i) row.move(batch);
           trace::breakpoint();
           row.move(batch);
           trace::breakpoint();
         })
      .front();
}

/// What two processes share besides the fabric.
struct Shared {
  std::atomic<std::uint32_t> round;  // Of the ping that is awaited.
  std::atomic<std::uint64_t> received;
  std::atomic<bool> ends;
};

void use_processor(unsigned number) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(number, &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// Packets of that size one way, in batches of 16, while both spin; packets a second.
double one_way(unsigned switches, std::uint32_t bytes) {
  Row row(switches);
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const shared = new (memory) Shared{};
  const pid_t receiver = fork();
  if (receiver == 0) {
    use_processor(1);
    const auto mover = std::move(row.fabric.shared->join().value());
    alignas(64) std::array<std::byte, kLargeBytes - kHeaderBytes> into;
    while (!shared->ends) {
      shared->received +=
          row.fabric.ends[1]->receive(mover->walker(), 0, [&](const IncomingPacket& incoming) {
            const ByteSpan payload = incoming.bytes.subspan(kHeaderBytes);
            std::memcpy(into.data(), payload.data(), payload.size());
          });
    }
    _exit(0);
  }
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  use_processor(0);
  constexpr TimeNs kTime = 300 * kMillisecond;
  const TimeNs begin = monotonic_now();
  TimeNs now = begin;
  for (; now < begin + kTime; now = monotonic_now()) {
    for (unsigned i = 0; i < 16; ++i) row.post(bytes);
    row.push();
  }
  const double rate =
      static_cast<double>(shared->received.load()) / static_cast<double>(now - begin) * 1e9;
  shared->ends = true;
  waitpid(receiver, nullptr, 0);
  sched_setaffinity(0, sizeof all, &all);
  return rate;
}

}  // namespace

template <typename Row>
void print_row(const char* kind, unsigned switches, unsigned batch, bool only_count) {
  const std::size_t count = places<Row>(switches, batch).size() / batch;
  Row row(switches);
  const double time = only_count ? 0 : nanoseconds(row, batch);
  std::printf("%u switches, %s%2u   %12zu   %11.1f\n", switches, kind, batch, count, time);
}

int main(int argc, char** argv) {
  const bool only_counts = argc > 1 && std::string_view(argv[1]) == "--count";
  if (argc > 1 && std::string_view(argv[1]) == "--where") {
    trace::print("3 switches, batch of 16", places<Row>(3, 16));
    trace::print("1 switch in virtual time, batch of 16", places<VirtualRow>(1, 16));
    return 0;
  }
  std::printf("one thread, 64 B            instructions   ns a packet\n");
  for (const unsigned switches : {1u, 2u, 3u}) {
    for (const unsigned batch : {1u, 16u}) {
      print_row<Row>("batches of ", switches, batch, only_counts);
    }
  }
  for (const unsigned batch : {1u, 16u})
    print_row<VirtualRow>("in events, ", 1, batch, only_counts);
  if (only_counts) return 0;
  std::printf("two processes, one way     64 B, M/s   4 KiB, GB/s\n");
  for (const unsigned switches : {1u, 3u}) {
    std::printf("%u switches                 %9.2f   %11.2f\n", switches,
                one_way(switches, kSmallBytes) / 1e6, one_way(switches, kLargeBytes) * 4096 / 1e9);
  }
  return 0;
}
