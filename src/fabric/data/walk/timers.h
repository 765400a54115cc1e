#pragma once

#include <bit>

#include "fabric/data/walk/walker.h"

/// Links that are to be served at a time; all of them are stalled. `due_at` and the link's bit
/// belong to the owner of its gate, so they outlive a thread that looks for links that are due,
/// wherever it dies.
namespace verbatim::fabric {

/// Sequentially consistent, as is `run_due`: either that sees the time, or this sees that nobody
/// looks again so early.
template <typename Policy>
void Walker<Policy>::set_timer(LinkIndex index, LinkRecord& link, TimeNs at) {
  const TimeNs before = link.due_at.load(std::memory_order_relaxed);
  if constexpr (Policy::kIsVirtual) {
    // Each packet that comes to a link which waits asks for the same time.
    if (before != at) policy_.schedule(at, index, 0);
    link.due_at.store(at, std::memory_order_relaxed);
    return;
  }
  link.due_at.store(at, std::memory_order_seq_cst);
  Policy::at(CrashPoint::timer_noted);
  if (before == 0) {
    image_.timed_links(index / 64).fetch_or(1ULL << index % 64, std::memory_order_seq_cst);
  }
  look_at_timers(at);
  // Either the keeper, which looks again after it has said when it looks next, sees the time, or
  // this sees that it comes too late.
  if (at + kKeeperPatienceMax < image_.header().keeper_due.load(std::memory_order_seq_cst)) {
    tell_program(image_.from_end(0));
  }
}

/// The time last: if this dies in between, it says after the death that the bit is to be looked at.
template <typename Policy>
[[gnu::noinline]] void Walker<Policy>::clear_timer(LinkRecord& link) {
  if (link.due_at.load(std::memory_order_relaxed) == 0) return;
  if constexpr (!Policy::kIsVirtual) {
    const LinkIndex index = image_.index_of(link);
    image_.timed_links(index / 64).fetch_and(~(1ULL << index % 64), std::memory_order_relaxed);
    Policy::at(CrashPoint::timer_ended);
  }
  link.due_at.store(0, std::memory_order_release);
}

/// Not later than `at`.
template <typename Policy>
void Walker<Policy>::look_at_timers(TimeNs at) {
  std::atomic<TimeNs>& earliest = image_.header().earliest;
  TimeNs known = earliest.load(std::memory_order_seq_cst);
  while (at < known && !earliest.compare_exchange_weak(known, at)) {
  }
}

template <typename Policy>
bool Walker<Policy>::run_due(TimeNs now) {
  std::atomic<TimeNs>& earliest = image_.header().earliest;
  TimeNs known = earliest.load(std::memory_order_relaxed);
  if (now < known || !earliest.compare_exchange_strong(known, kNever)) return false;
  Policy::at(CrashPoint::timers_taken);
  TimeNs next = kNever;
  for (std::uint32_t word = 0; word < image_.timed_words(); ++word) {
    std::uint64_t timed = image_.timed_links(word).load(std::memory_order_seq_cst);
    for (; timed != 0; timed &= timed - 1) {
      const LinkIndex index = word * 64 + static_cast<LinkIndex>(std::countr_zero(timed));
      const TimeNs due = image_.link(index).due_at.load(std::memory_order_seq_cst);
      if (due > now && !is_of_another_clock(due, now, kWaitMax)) {
        next = std::min(next, due);
      } else {
        start(index);
      }
    }
  }
  if (next != kNever) look_at_timers(next);
  return true;
}

}  // namespace verbatim::fabric
