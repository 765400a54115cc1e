// bench_nic_switch [RULES]: what the card's switch takes, in processor time of one thread: parsing
// and looking up frames of RULES flows (10,000) of 8 masks in batches of 32, with the exact cache
// and without; the whole way of a frame from ring to ring; a rule in, and out again. And how many
// bytes a million rules take, and a driver's rings. Prints NAME VALUE on a line each.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench/nic_traffic.h"
#include "offload/card/attached_driver.h"
#include "offload/switch/switch.h"

namespace {

using namespace verbatim;
using namespace verbatim::offload;
constexpr std::size_t kLookups = 1 << 18;
constexpr int kRounds = 7;

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
    const double begin = bench::now();
    for (std::size_t i = 0; i < kLookups; i += kBatch) {
      std::array<Key, kBatch> keys;
      std::array<std::uint32_t, kBatch> found;
      for (std::size_t j = 0; j < kBatch; ++j) __builtin_prefetch(frames[order[i + j]].data());
      for (std::size_t j = 0; j < kBatch; ++j) keys[j] = *key_of(frames[order[i + j]], 1);
      table.find(keys, {}, found);
      for (std::size_t j = 0; j < kBatch; ++j) right += found[j] == order[i + j];
    }
    best = std::min(best, (bench::now() - begin) / kLookups * 1e9);
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

/// A driver whose port 0 sends and whose port 1 receives. Its addresses are offsets in its memory.
class Rings {
 public:
  explicit Rings(const std::vector<std::vector<std::byte>>& frames) {
    const std::size_t bytes = (frames.size() + VNIC_SLOTS) * kBuffer;
    file_.reset(memfd_create("frames", MFD_CLOEXEC));
    auto made = AttachedDriver::create(2, static_cast<std::uint32_t>(frames.size()));
    if (!made || ftruncate(file_.get(), static_cast<off_t>(bytes)) < 0) std::exit(1);
    driver = std::move(*made);
    if (!driver->memory().add({.address = kBase, .length = bytes, .offset = 0}, file_.get())) {
      std::exit(1);
    }
    for (std::size_t i = 0; i < frames.size(); ++i) {
      std::ranges::copy(frames[i], driver->memory().find(kBase + i * kBuffer, kBuffer));
    }
    region_ =
        static_cast<vnic_region*>(mmap(nullptr, driver->region_bytes(), PROT_READ | PROT_WRITE,
                                       MAP_SHARED, driver->region_file(), 0));
    if (region_ == MAP_FAILED) std::exit(1);
    first_receiver_ = frames.size();
    driver->start(0);
    driver->start(1);
  }
  ~Rings() { munmap(region_, driver->region_bytes()); }

  /// What the sender and the receiver do of a batch.
  void post(const std::uint32_t* flows, std::size_t count, std::uint32_t bytes) {
    vnic_ring& send = region_->ports[0].send[0];
    vnic_ring& receive = region_->ports[1].receive[0];
    for (std::size_t i = 0; i < count; ++i) {
      send.slots[(send.posted + i) % VNIC_SLOTS] = {kBase + flows[i] * kBuffer, bytes, 0};
      const std::uint64_t slot = (receive.posted + i) % VNIC_SLOTS;
      receive.slots[slot] = {kBase + (first_receiver_ + slot) * kBuffer, kBuffer, 0};
    }
    release(send.posted, send.posted + static_cast<std::uint32_t>(count));
    release(receive.posted, receive.posted + static_cast<std::uint32_t>(count));
  }

  std::unique_ptr<AttachedDriver> driver;

 private:
  static constexpr std::uint64_t kBase = 1 << 20;
  static constexpr std::uint32_t kBuffer = 256;
  UniqueFd file_;
  vnic_region* region_ = nullptr;
  std::size_t first_receiver_ = 0;
};

/// A batch from ring to ring. Returns how many frames came out.
std::size_t forward(Rings& rings, Switch& engine) {
  std::array<Arrival, Switch::kBatch> arrivals;
  std::array<Verdict, Switch::kBatch> verdicts{};
  std::size_t count = 0;
  rings.driver->take_frames(0, [&](ByteSpan frame) {
    __builtin_prefetch(frame.data());
    arrivals[count++] = {.frame = frame, .port = 1, .bytes = frame.size()};
  });
  engine.decide(std::span(arrivals).first(count), verdicts,
                [&](std::uint32_t id, const Arrival& arrival) {
                  vnic_counter& counter = rings.driver->counter(id);
                  offload::count(counter.packets, arrival.packets);
                  offload::count(counter.bytes, arrival.bytes);
                });
  std::size_t out = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (verdicts[i].rule == kNoRule) continue;
    out += rings.driver->deliver(1, verdicts[i].hash, 0, [&](MutableByteSpan room) {
      std::memcpy(room.data(), arrivals[i].frame.data(), arrivals[i].frame.size());
      return arrivals[i].frame.size();
    });
  }
  return out;
}

void measure_rings(std::uint32_t flows) {
  std::vector<std::vector<std::byte>> frames;
  Switch engine({}, 7);
  for (std::uint32_t i = 0; i < flows; ++i) {
    frames.push_back(bench::frame_of(i));
    if (!engine.insert(rule_of(i))) std::exit(1);
  }
  Rings rings(frames);
  std::mt19937 random(7);
  std::vector<std::uint32_t> order(kLookups);
  for (auto& each : order) each = static_cast<std::uint32_t>(random() % flows);
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    std::size_t out = 0;
    const double begin = bench::now();
    for (std::size_t i = 0; i < kLookups; i += Switch::kBatch) {
      rings.post(&order[i], Switch::kBatch, 60);
      out += forward(rings, engine);
    }
    best = std::min(best, (bench::now() - begin) / kLookups * 1e9);
    if (out != kLookups) std::exit(1);
  }
  std::printf("ring_to_ring_ns %.1f\n", best);
}

/// The card's part of a rule in, and out again.
void measure_changes() {
  constexpr std::uint32_t kRules = 1000000;
  Switch engine({}, 7);
  double begin = bench::now();
  for (std::uint32_t i = 0; i < kRules; ++i) {
    if (!engine.insert(rule_of(i))) std::exit(1);
  }
  std::printf("insert_ns %.1f\n", (bench::now() - begin) / kRules * 1e9);
  begin = bench::now();
  for (std::uint32_t i = 0; i < kRules; ++i) {
    if (!engine.erase(i)) std::exit(1);
  }
  std::printf("erase_ns %.1f\n", (bench::now() - begin) / kRules * 1e9);
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
  const auto flows = argc > 1 ? static_cast<std::uint32_t>(std::atoi(argv[1])) : 10000u;
  measure_lookups(flows);
  measure_rings(flows);
  measure_changes();
  measure_memory();
}
