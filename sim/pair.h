#pragma once

#include <functional>
#include <vector>

#include "sim/network.h"
#include "sim/node.h"

namespace verbatim::sim {

/// What both sides of a pair agree on.
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
                         region::kFlushGlobal;  // Of the responders.
};

/// Two connected nodes, the network between them, and the clock, which jumps from event to event.
class Pair {
 public:
  Pair(const PairOptions& options, const Faults& faults, std::uint64_t seed);

  Node& operator[](int index) { return index == 0 ? first_ : second_; }
  Network& network() { return network_; }
  Random& random() { return random_; }
  TimeNs now() const { return now_; }
  /// Runs `action` when the clock has come to `at`.
  void at(TimeNs at, std::function<void()> action);

  /// Until `done()`, which is asked after each event and may post. False if that does not come
  /// before the clock is at `bound`, or nothing more will happen, or nothing does in a very long
  /// row of events: a hang.
  bool run(const std::function<bool()>& done, TimeNs bound = 1000 * kSecond);
  /// Until every posted send request has completed.
  bool run_until_complete(TimeNs bound = 1000 * kSecond);
  /// What was on its way arrives.
  void run_until_quiet();
  /// What the checkers of both nodes found wrong so far; `finish` looks for what is missing too.
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
};

}  // namespace verbatim::sim
