#include "sim/pair.h"

#include <algorithm>
#include <utility>

namespace verbatim::sim {
namespace {

Promise promise_of(wire::Service service, const Faults& faults) {
  if (wire::is_reliable(service)) return Promise::exactly_once;
  const bool in_order = faults.duplication == 0 && faults.reordering == 0;
  return in_order ? Promise::at_most_once : Promise::intact;
}

}  // namespace

Pair::Pair(const PairOptions& options, const Faults& faults, std::uint64_t seed)
    : random_(seed),
      network_(faults, random_),
      first_(0, options.memory_bytes, options.depth, promise_of(options.service, faults)),
      second_(1, options.memory_bytes, options.depth, promise_of(options.service, faults)) {
  for (Node* node : {&first_, &second_}) {
    const Qpn peer(node == &first_ ? 0x11 : 0x10);
    node->connect({.service = options.service,
                   .dest_qp = peer,
                   .first_psn = options.first_psn,
                   .path_mtu = options.path_mtu,
                   .timeout = options.timeout,
                   .retry_count = options.retry_count,
                   .rnr_retry = options.rnr_retry,
                   .max_rd_atomic = options.max_rd_atomic,
                   .window_bytes_max = options.window_bytes_max},
                  {.service = options.service,
                   .dest_qp = peer,
                   .expected_psn = options.first_psn,
                   .path_mtu = options.path_mtu,
                   .max_dest_rd_atomic = options.max_rd_atomic,
                   .min_rnr_timer = options.min_rnr_timer,
                   .access = options.access,
                   .pd = node->pd(),
                   .own_qp = Qpn(node == &first_ ? 0x10 : 0x11)});
  }
}

void Pair::at(TimeNs at, std::function<void()> action) {
  actions_.push_back({at, std::move(action)});
}

TimeNs Pair::next_event() const {
  TimeNs next = std::min({network_.next_arrival(), first_.deadline(), second_.deadline()});
  for (const Action& action : actions_) next = std::min(next, action.at);
  return next;
}

void Pair::handle(TimeNs at) {
  now_ = std::max(now_, at);
  ++events_;
  was_served_ = false;
  if (network_.next_arrival() <= now_) {
    return network_.deliver_next(
        [this](int to, ByteSpan bytes) { (*this)[to].on_arrival(bytes, now_); });
  }
  first_.on_time(now_);
  second_.on_time(now_);
  was_served_ = true;
  const auto due =
      std::ranges::find_if(actions_, [this](auto& action) { return action.at <= now_; });
  if (due == actions_.end()) return;
  const auto run = std::move(due->run);
  actions_.erase(due);
  run();
}

bool Pair::run(const std::function<bool()>& done, TimeNs bound) {
  for (;;) {
    if (done()) return true;
    const bool first_sent = first_.pump(now_, network_);
    const bool second_sent = second_.pump(now_, network_);
    if (first_sent || second_sent) continue;  // Sending may have completed a request.
    if (was_served_ && std::min(first_.deadline(), second_.deadline()) <= now_) ++overdue_;
    const TimeNs next = next_event();
    if (next == kNever || next > bound || events_ > kEventsMax) return false;
    handle(next);
  }
}

bool Pair::run_until_complete(TimeNs bound) {
  return run(
      [this] {
        return first_.requester().outstanding() == 0 && second_.requester().outstanding() == 0;
      },
      bound);
}

void Pair::run_until_quiet() {
  while (network_.next_arrival() != kNever) {
    handle(network_.next_arrival());
    first_.pump(now_, network_);
    second_.pump(now_, network_);
  }
}

Violations Pair::violations() {
  Violations all;
  for (Node* node : {&first_, &second_}) {
    std::ranges::copy(node->sends().violations(), std::back_inserter(all));
    std::ranges::copy(node->deliveries().violations(), std::back_inserter(all));
  }
  return all;
}

Violations Pair::finish() {
  for (Node* node : {&first_, &second_}) {
    node->sends().finish();
    node->deliveries().finish();
  }
  return violations();
}

}  // namespace verbatim::sim
