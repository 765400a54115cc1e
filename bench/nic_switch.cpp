// bench_nic_switch [RULES]: what the card's switch takes, in processor time of one thread: parsing
// and looking up frames of RULES flows (10,000) of 8 masks in batches of 32, with the exact cache
// and without. And how many bytes a million rules take, and a driver's rings. Prints NAME VALUE on
// a line each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <time.h>

#include "bench/nic_traffic.h"
#include "offload/ring/layout.h"
#include "offload/switch/flow_table.h"

namespace {

using namespace verbatim::offload;
constexpr std::size_t kLookups = 1 << 18;
constexpr int kRounds = 7;

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

Rule rule_of(std::uint32_t flow) {
  const auto frame = bench::frame_of(flow);
  Rule rule{.key = *key_of(frame, 1), .mask = bench::mask_of(flow % bench::kMasks), .id = flow};
  rule.actions.push({.kind = ActionKind::kOutput, .port = 2});
  return rule;
}

/// Returns the nanoseconds of one frame: the best round.
double look_up(FlowTable& table, const std::vector<std::vector<std::byte>>& frames,
               const std::vector<std::uint32_t>& order) {
  constexpr std::size_t kBatch = FlowTable::kBatch;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    std::size_t right = 0;
    const double begin = now();
    for (std::size_t i = 0; i < kLookups; i += kBatch) {
      std::array<Key, kBatch> keys;
      std::array<std::uint32_t, kBatch> found;
      for (std::size_t j = 0; j < kBatch; ++j) __builtin_prefetch(frames[order[i + j]].data());
      for (std::size_t j = 0; j < kBatch; ++j) keys[j] = *key_of(frames[order[i + j]], 1);
      table.find(keys, {}, found);
      for (std::size_t j = 0; j < kBatch; ++j) right += found[j] == order[i + j];
    }
    best = std::min(best, (now() - begin) / kLookups * 1e9);
    if (right != kLookups) std::exit(1);
  }
  return best;
}

void measure_lookups(std::uint32_t flows) {
  FlowTable table({}, 7);
  std::vector<std::vector<std::byte>> frames;
  for (std::uint32_t i = 0; i < flows; ++i) {
    frames.push_back(bench::frame_of(i));
    if (!table.insert(rule_of(i))) std::exit(1);
  }
  std::mt19937 random(7);
  std::vector<std::uint32_t> order(kLookups);
  for (auto& each : order) each = static_cast<std::uint32_t>(random() % flows);
  for (const bool uses_cache : {false, true}) {
    table.use_cache(uses_cache);
    std::printf("%s %.1f\n", uses_cache ? "lookup_cached_ns" : "lookup_ns",
                look_up(table, frames, order));
  }
}

void measure_memory() {
  constexpr std::uint32_t kRules = 1000000;
  FlowTable table({}, 7);
  const std::size_t before = resident_bytes();
  for (std::uint32_t i = 0; i < kRules; ++i) {
    if (!table.insert(rule_of(i))) std::exit(1);
  }
  const std::size_t took = resident_bytes() - before;
  std::printf("bytes_a_rule %zu\n", took / kRules + sizeof(vnic_counter));
  std::printf("ring_bytes_a_port %zu\n", sizeof(vnic_port));
}

}  // namespace

int main(int argc, char** argv) {
  measure_lookups(argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 10000);
  measure_memory();
}
