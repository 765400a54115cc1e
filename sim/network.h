#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "sim/outage.h"
#include "sim/random.h"

namespace verbatim::sim {

/// Faults of the network. Probabilities are per packet.
struct Faults {
  double loss = 0;
  double duplication = 0;
  double reordering = 0;  // Delayed by up to `reordering_delay_ns` more than later ones.
  double corruption = 0;  // Dropped on arrival, because its ICRC does not match.
  TimeNs delay_ns = 5 * kMicrosecond;
  TimeNs reordering_delay_ns = 40 * kMicrosecond;
  /// Time that the receiver needs per packet and per byte. If more is waiting than the buffer can
  /// hold, packets are lost, as in a socket's receive buffer. 0 means infinitely fast.
  TimeNs receive_packet_ns = 0;
  double receive_byte_ns = 0;
  std::uint64_t receive_buffer_bytes = 212'992;
  // Charged to the buffer in addition to the packet's bytes.
  std::uint64_t packet_overhead_bytes = 768;
};

struct NetworkCounters {
  std::uint64_t sent = 0;
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t overrun = 0;    // Lost because the receive buffer was full.
  std::uint64_t in_outage = 0;  // Sent during the outage.
};

/// Two ends, 0 and 1, and packets in flight between them.
class Network {
 public:
  Network(const Faults& faults, Random& random) : faults_(faults), random_(random) {}

  /// `write` fills in the packet's bytes.
  template <typename Write>
  void send(int to, TimeNs now, Write&& write) {
    std::vector<std::byte> bytes = take_buffer();
    write(bytes);
    accept(to, now, std::move(bytes));
  }
  /// For tests that choose which packets are lost: called for each packet before the faults; true
  /// drops it.
  std::function<bool(int to, ByteSpan bytes)> drop;
  Outage outage;  // None at first.

  /// Returns kNever if no packet is in flight.
  TimeNs next_arrival() const { return in_flight_.empty() ? kNever : in_flight_.top().at; }
  /// Calls `deliver(to, bytes)` for the first packet, which must have arrived.
  template <typename Deliver>
  void deliver_next(Deliver&& deliver) {
    // Moved out before it is popped: the order depends only on `at` and `number`.
    Arrival arrival = std::move(const_cast<Arrival&>(in_flight_.top()));
    in_flight_.pop();
    deliver(arrival.to, ByteSpan(arrival.bytes));
    buffers_.push_back(std::move(arrival.bytes));
  }
  const NetworkCounters& counters() const { return counters_; }

 private:
  struct Arrival {
    TimeNs at = 0;
    std::uint64_t number = 0;  // Packets that arrive together keep the order of sending.
    int to = 0;
    std::vector<std::byte> bytes;
    bool operator>(const Arrival& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  std::vector<std::byte> take_buffer();
  void accept(int to, TimeNs now, std::vector<std::byte> bytes);
  void enqueue(int to, TimeNs now, std::vector<std::byte> bytes);
  /// Returns when the receiver has processed the packet; kNever if the buffer is full.
  TimeNs received_at(int to, TimeNs at, std::size_t bytes);

  Faults faults_;
  Random& random_;
  NetworkCounters counters_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> in_flight_;
  std::array<TimeNs, 2> busy_until_{};
  std::uint64_t number_ = 0;
  std::vector<std::vector<std::byte>> buffers_;  // For reuse.
};

}  // namespace verbatim::sim
