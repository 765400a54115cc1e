// queue_pairs COUNT: creates COUNT reliable connected queue pairs of perftest's default depth,
// connects them in pairs, sends a message over each, prints their memory cost, and then waits,
// without its own thread, until its standard input ends.
#include <cstring>
#include <fstream>

#include <unistd.h>

#include "tests/programs/endpoint.h"

namespace {

using namespace endpoint;

constexpr std::uint32_t kSends = 128;
constexpr std::uint32_t kReceives = 512;
constexpr std::size_t kMessageBytes = 64;

/// Returns a value of /proc/self/status in KiB.
long status_kib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  long value = 0;
  while (status >> word) {
    if (word == name + ":" && status >> value) return value;
  }
  fail("/proc/self/status has no " + name);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 2 ? std::atoi(argv[1]) : 0;
  if (count < 2 || count % 2 != 0) {
    std::fprintf(stderr, "usage: queue_pairs COUNT (an even number)\n");
    return 2;
  }
  const Device device(count * 2);
  Buffer buffer(device, kMessageBytes * 2);
  const long before = status_kib("VmRSS");

  std::vector<ibv_qp*> pairs;
  for (int i = 0; i < count; ++i) {
    pairs.push_back(device.create_queue_pair(IBV_QPT_RC, kSends, kReceives));
  }
  for (int i = 0; i < count; ++i) {
    device.connect(pairs[i], pairs[i ^ 1]->qp_num, IBV_MTU_4096);
  }
  const long connected = status_kib("VmRSS");

  for (int i = 0; i < count; ++i) {
    post_receive(pairs[i], buffer.segment(kMessageBytes), static_cast<std::uint64_t>(i));
  }
  for (int i = 0; i < count; ++i) {
    ibv_sge segment = {buffer.address() + kMessageBytes, kMessageBytes, buffer.region->lkey};
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    endpoint::post_send(pairs[i], request, segment);
  }
  device.completions(static_cast<std::size_t>(count) * 2);
  const long used = status_kib("VmRSS");

  std::printf("queue pairs: %d\nKiB for each, connected: %.1f\nKiB for each, used: %.1f\nready\n",
              count, static_cast<double>(connected - before) / count,
              static_cast<double>(used - before) / count);
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
