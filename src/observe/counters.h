#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

/// Counters of a port and of a queue pair. They are in shared memory, where `verbatim status` reads
/// them while programs run.
namespace verbatim::observe {

/// One counter. Several threads of its process may add, any process may read. All accesses are
/// relaxed: no other memory access depends on a counter.
class Counter {
 public:
  void add(std::uint64_t amount = 1) { value_.fetch_add(amount, std::memory_order_relaxed); }
  /// Adds without a locked instruction. Requires the lock of the counted object.
  void add_exclusive(std::uint64_t amount = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  /// Stores a value that was counted elsewhere.
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  void reset() { set(0); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};
static_assert(sizeof(Counter) == 8 && std::atomic<std::uint64_t>::is_always_lock_free);

/// Counters of one queue pair.
struct QueuePairCounters {
  Counter packets_sent;
  Counter bytes_sent;  // Transport packets without IP and UDP headers and ICRC.
  Counter packets_received;
  Counter bytes_received;
  Counter acks_sent;
  Counter acks_received;
  Counter naks_sent;
  Counter naks_received;
  Counter rnr_naks_sent;
  Counter rnr_naks_received;
  Counter retransmissions;  // Packets sent again.
  Counter timeouts;         // Acknowledgements that did not arrive in time.
  Counter duplicates;       // Requests that had been executed already.
  Counter out_of_sequence;  // Requests ahead of the expected PSN.
  Counter qkey_violations;
};

/// Requests of one direction on the direct path, and their bytes.
struct DirectCounters {
  Counter messages;
  Counter bytes;
};

/// Counters of one port: packets that reached no queue pair, and the sums over all queue pairs.
struct PortCounters {
  Counter packets_sent;
  Counter bytes_sent;
  Counter packets_received;
  Counter bytes_received;
  Counter icrc_errors;
  Counter malformed;
  Counter dropped_no_qp;  // The destination queue pair does not exist or does not receive.
  Counter pkey_violations;
  Counter qkey_violations;
};

/// Name and member of a counter, so that printing is a loop over a table.
template <typename Counters>
struct CounterName {
  const char* name;
  Counter Counters::* member;
};

inline constexpr std::array kQueuePairCounters = std::to_array<CounterName<QueuePairCounters>>({
    {"packets_sent", &QueuePairCounters::packets_sent},
    {"bytes_sent", &QueuePairCounters::bytes_sent},
    {"packets_received", &QueuePairCounters::packets_received},
    {"bytes_received", &QueuePairCounters::bytes_received},
    {"acks_sent", &QueuePairCounters::acks_sent},
    {"acks_received", &QueuePairCounters::acks_received},
    {"naks_sent", &QueuePairCounters::naks_sent},
    {"naks_received", &QueuePairCounters::naks_received},
    {"rnr_naks_sent", &QueuePairCounters::rnr_naks_sent},
    {"rnr_naks_received", &QueuePairCounters::rnr_naks_received},
    {"retransmissions", &QueuePairCounters::retransmissions},
    {"timeouts", &QueuePairCounters::timeouts},
    {"duplicates", &QueuePairCounters::duplicates},
    {"out_of_sequence", &QueuePairCounters::out_of_sequence},
    {"qkey_violations", &QueuePairCounters::qkey_violations},
});

inline constexpr std::array kPortCounters = std::to_array<CounterName<PortCounters>>({
    {"packets_sent", &PortCounters::packets_sent},
    {"bytes_sent", &PortCounters::bytes_sent},
    {"packets_received", &PortCounters::packets_received},
    {"bytes_received", &PortCounters::bytes_received},
    {"icrc_errors", &PortCounters::icrc_errors},
    {"malformed", &PortCounters::malformed},
    {"dropped_no_qp", &PortCounters::dropped_no_qp},
    {"pkey_violations", &PortCounters::pkey_violations},
    {"qkey_violations", &PortCounters::qkey_violations},
});

// Each table has a row for each counter, and the layout is the same in every process.
static_assert(kQueuePairCounters.size() * sizeof(Counter) == sizeof(QueuePairCounters));
static_assert(kPortCounters.size() * sizeof(Counter) == sizeof(PortCounters));
static_assert(std::is_standard_layout_v<QueuePairCounters> &&
              std::is_standard_layout_v<PortCounters>);

}  // namespace verbatim::observe
