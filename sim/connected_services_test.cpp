#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/workload.h"

/// Thousands of random runs of both sides' real engines, in virtual time, over a network that
/// loses, repeats, reorders and corrupts packets. Each failure prints the seed that replays it.
namespace verbatim::sim {
namespace {

using transport::Operation;
using transport::Status;

constexpr Mtu kMtus[] = {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096};

struct Family {
  std::string name;
  wire::Service service = wire::Service::rc;
  std::vector<Operation> operations;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

/// RC, and XRC, which is RC with a shared receive queue's number in each request.
std::vector<Family> reliable_families(wire::Service service) {
  return {
      {"send", service, {Operation::send}},
      {"send_with_immediate", service, {Operation::send_with_immediate}},
      {"send_with_invalidate", service, {Operation::send_with_invalidate}},
      {"write", service, {Operation::write}},
      {"write_with_immediate", service, {Operation::write_with_immediate}},
      {"read", service, {Operation::read}},
      {"compare_and_swap", service, {Operation::compare_and_swap}},
      {"fetch_and_add", service, {Operation::fetch_and_add}},
      {"atomic_write", service, {Operation::atomic_write}},
      {"flush", service, {Operation::flush, Operation::write}},
      {"local_invalidate",
       service,
       {Operation::local_invalidate, Operation::bind_window, Operation::send, Operation::read}},
      {"mixed",
       service,
       {Operation::send, Operation::send_with_immediate, Operation::send_with_invalidate,
        Operation::write, Operation::write_with_immediate, Operation::read,
        Operation::compare_and_swap, Operation::fetch_and_add, Operation::flush,
        Operation::atomic_write, Operation::local_invalidate, Operation::bind_window}},
  };
}
const std::vector<Family> kUcFamilies = {
    {"send", wire::Service::uc, {Operation::send}},
    {"send_with_immediate", wire::Service::uc, {Operation::send_with_immediate}},
    {"write", wire::Service::uc, {Operation::write}},
    {"write_with_immediate", wire::Service::uc, {Operation::write_with_immediate}},
    {"mixed",
     wire::Service::uc,
     {Operation::send, Operation::send_with_immediate, Operation::write,
      Operation::write_with_immediate, Operation::local_invalidate, Operation::bind_window}},
};

PairOptions random_pair(const Family& family, Random& random) {
  PairOptions options;
  options.service = family.service;
  options.path_mtu = kMtus[random.below(std::size(kMtus))];
  // In half of the runs PSNs wrap within the first packets.
  options.first_psn = random.chance(0.5)
                          ? Psn(static_cast<std::uint32_t>(0xffffff - random.below(30)))
                          : Psn(static_cast<std::uint32_t>(random.next()));
  options.depth = static_cast<std::uint32_t>(random.between(1, 24));
  options.timeout = static_cast<std::uint8_t>(random.between(6, 14));
  options.retry_count = 255;  // More than a program may ask for, so that no run ends by bad luck.
  options.max_rd_atomic = static_cast<std::uint8_t>(random.between(1, 8));
  options.window_bytes_max = static_cast<std::uint32_t>(random.between(1 << 10, 1 << 18));
  return options;
}

Faults random_faults(Random& random) {
  Faults faults;
  if (random.chance(0.8)) faults.loss = static_cast<double>(random.below(200)) / 1000;
  if (random.chance(0.4)) faults.duplication = static_cast<double>(random.below(200)) / 1000;
  if (random.chance(0.4)) faults.reordering = static_cast<double>(random.below(300)) / 1000;
  if (random.chance(0.3)) faults.corruption = static_cast<double>(random.below(50)) / 1000;
  faults.delay_ns = random.between(1, 50) * kMicrosecond;
  return faults;
}

/// Runs once and returns the violations; empty if there are none.
Violations run_once(const Family& family, std::uint64_t seed) {
  Random random(seed);
  const PairOptions pair_options = random_pair(family, random);
  const Faults faults = random_faults(random);
  WorkloadOptions load;
  load.operations = family.operations;
  load.requests = static_cast<std::uint32_t>(random.between(1, 30));
  load.receive_posting = random.chance(0.3) ? 0.05 : 1;
  const bool both_ways = random.chance(0.5);

  PairOptions with_memory = pair_options;
  with_memory.memory_bytes = Workload::memory_bytes(pair_options, load);
  Pair pair(with_memory, faults, random.next());
  Workload forth(pair, 0, with_memory, load);
  Workload back(pair, 1, with_memory, load);
  const bool finished = pair.run([&] {
    forth.step();
    if (both_ways) back.step();
    return forth.done() && (!both_ways || back.done());
  });
  if (!finished) return {fmt::format("hangs at {} ns", pair.now())};
  pair.run_until_quiet();

  Violations all = pair.finish();
  std::ranges::copy(forth.finish(), std::back_inserter(all));
  if (both_ways) std::ranges::copy(back.finish(), std::back_inserter(all));
  for (int node = 0; node < 2; ++node) {
    if (pair[node].sends().first_failure() != Status::success) {
      all.push_back(fmt::format("node {} failed with status {}", node,
                                static_cast<int>(pair[node].sends().first_failure())));
    }
  }
  return all;
}

class ConnectedService : public testing::TestWithParam<Family> {};

TEST_P(ConnectedService, KeepsItsPromisesOverABadNetwork) {
  constexpr std::uint64_t kSeeds = 3000;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Violations violations = run_once(GetParam(), seed);
    ASSERT_TRUE(violations.empty())
        << GetParam().name << ", seed " << seed << ": " << violations.front();
  }
}

const auto kFamilyName = [](const auto& instance) { return instance.param.name; };
INSTANTIATE_TEST_SUITE_P(Rc, ConnectedService,
                         testing::ValuesIn(reliable_families(wire::Service::rc)), kFamilyName);
INSTANTIATE_TEST_SUITE_P(Xrc, ConnectedService,
                         testing::ValuesIn(reliable_families(wire::Service::xrc)), kFamilyName);
INSTANTIATE_TEST_SUITE_P(Uc, ConnectedService, testing::ValuesIn(kUcFamilies), kFamilyName);

}  // namespace
}  // namespace verbatim::sim
