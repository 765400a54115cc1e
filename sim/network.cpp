#include "sim/network.h"

#include <algorithm>
#include <utility>

namespace verbatim::sim {

std::vector<std::byte> Network::take_buffer() {
  if (buffers_.empty()) return {};
  std::vector<std::byte> buffer = std::move(buffers_.back());
  buffers_.pop_back();
  buffer.clear();
  return buffer;
}

void Network::accept(int to, TimeNs now, std::vector<std::byte> bytes) {
  ++counters_.sent;
  if (outage.holds(now)) ++counters_.in_outage;
  if (drop && drop(to, bytes)) {
    ++counters_.lost;
    return buffers_.push_back(std::move(bytes));
  }
  if (random_.chance(faults_.loss)) {
    ++counters_.lost;
    return buffers_.push_back(std::move(bytes));
  }
  if (random_.chance(faults_.corruption)) {
    ++counters_.corrupted;
    return buffers_.push_back(std::move(bytes));
  }
  if (random_.chance(faults_.duplication)) {
    ++counters_.duplicated;
    std::vector<std::byte> copy = take_buffer();
    copy.assign(bytes.begin(), bytes.end());
    enqueue(to, now, std::move(copy));
  }
  enqueue(to, now, std::move(bytes));
}

void Network::enqueue(int to, TimeNs now, std::vector<std::byte> bytes) {
  TimeNs at = outage.arrival(now, faults_.delay_ns);
  if (at == kNever) {
    ++counters_.lost;
    return buffers_.push_back(std::move(bytes));
  }
  if (random_.chance(faults_.reordering)) {
    ++counters_.reordered;
    at += random_.between(1, faults_.reordering_delay_ns);
  }
  at = received_at(to, at, bytes.size());
  if (at == kNever) {
    ++counters_.overrun;
    return buffers_.push_back(std::move(bytes));
  }
  in_flight_.push({at, number_++, to, std::move(bytes)});
}

TimeNs Network::received_at(int to, TimeNs at, std::size_t bytes) {
  const double charged = static_cast<double>(bytes + faults_.packet_overhead_bytes);
  const TimeNs takes =
      faults_.receive_packet_ns + static_cast<TimeNs>(charged * faults_.receive_byte_ns);
  if (takes == 0) return at;
  TimeNs& busy_until = busy_until_[static_cast<std::size_t>(to)];
  const TimeNs waits = busy_until > at ? busy_until - at : 0;
  const double waiting_bytes = static_cast<double>(waits) / static_cast<double>(takes) * charged;
  if (waiting_bytes + charged > static_cast<double>(faults_.receive_buffer_bytes)) return kNever;
  busy_until = at + waits + takes;
  return busy_until;
}

}  // namespace verbatim::sim
