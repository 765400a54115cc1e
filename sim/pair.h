#pragma once

#include <functional>
#include <vector>

#include "sim/network.h"
#include "sim/node.h"

namespace verbatim::sim {

/// Parameters that both sides of a pair share.
struct PairOptions {
  wire::Service service = wire::Service::rc;
  Mtu path_mtu = Mtu::k1024;
  Psn first_psn;  // Of both directions.
  std::uint32_t depth = 16;
  std::size_t memory_bytes = 1 << 16;
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t min_rnr_timer = 1;
  std::uint32_t window_bytes_max = 1 << 20;
  std::uint32_t access = region::kRemoteWrite | region::kRemoteRead | region::kRemoteAtomic |
                         region::kFlushGlobal;  // For the responders.
};

/// Two connected nodes, the network between them, and the clock, which jumps from event to event.
class Pair {
 public:
  Pair(const PairOptions& options, const Faults& faults, std::uint64_t seed);

  Node& operator[](int index) { return index == 0 ? first_ : second_; }
  Network& network() { return network_; }
  Random& random() { return random_; }
  TimeNs now() const { return now_; }
  /// Runs `action` when the clock reaches `at`.
  void at(TimeNs at, std::function<void()> action);

  /// Runs until `done()`, which is called after each event and may post. Returns false if the clock
  /// reaches `bound` before, if nothing more will happen, or if very many events make no progress:
  /// a hang.
  bool run(const std::function<bool()>& done, TimeNs bound = 1000 * kSecond);
  /// Runs until every posted send request has completed.
  bool run_until_complete(TimeNs bound = 1000 * kSecond);
  /// Runs until no packet is in flight.
  void run_until_quiet();
  /// How often a node that had just been served had a deadline that was not later than now.
  std::uint64_t overdue() const { return overdue_; }
  /// Returns the violations that both nodes' checkers have found so far; `finish` also finds what
  /// is missing.
  Violations violations();
  Violations finish();

 private:
  struct Action {
    TimeNs at = 0;
    std::function<void()> run;
  };
  static constexpr std::uint64_t kEventsMax = 20'000'000;

  TimeNs next_event() const;
  void handle(TimeNs at);

  Random random_;
  Network network_;
  Node first_;
  Node second_;
  std::vector<Action> actions_;
  TimeNs now_ = 1 * kSecond;
  std::uint64_t events_ = 0;
  bool was_served_ = false;  // By `on_time`, in the last event.
  std::uint64_t overdue_ = 0;
};

}  // namespace verbatim::sim
