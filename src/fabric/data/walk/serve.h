#pragma once

#include <algorithm>
#include <bit>

#include "fabric/data/walk/arbiter.h"
#include "fabric/data/walk/timers.h"
#include "fabric/data/walk/walker.h"

/// Serving a link: which of the packets that wait for it leaves next, and what cannot leave.
namespace verbatim::fabric {

/// Moves packets as far as credits, the clock and the bound of a visit allow. True: there are more
/// that could leave.
template <typename Policy>
bool Walker<Policy>::serve(LinkIndex index, LinkRecord& link) {
  forget_exit();
  if (image_.comes_from_end(index)) return serve_ring(index, link);
  std::uint32_t left = kPacketsOfAVisit;
  while (const std::uint32_t waiting = link.waiting & kLaneMask) {
    if (left-- == 0) return true;
    const bool passes_all =
        link.passes.load(std::memory_order_relaxed) == static_cast<std::uint8_t>(Passes::all);
    if ((!passes_all || link.stalled != 0) && discard_what_cannot_leave(index, link)) continue;
    if (!may_leave(link)) {
      note_blocked(index, link, true);
      return false;
    }
    std::uint32_t ready = ready_lanes(index, link);
    if (ready == 0) {
      link.waits.store(1, std::memory_order_seq_cst);
      ready = ready_lanes(index, link);  // Once more, after it has said so.
      if (ready == 0) {
        note_blocked(index, link, false);
        if (is_passed_over(index)) continue;  // And is discarded.
        return false;
      }
    }
    auto lane = static_cast<unsigned>(std::countr_zero(ready));
    // Not std::has_single_bit: without a processor's instruction it is a call.
    const bool has_other_lanes = (waiting & (waiting - 1)) != 0;
    if (has_other_lanes) {
      Arbiter arbiter(link, image_.port(image_.node(link.start), link.start_port));
      lane = arbiter.choose(ready);
      arbiter.charge(image_.slot(link.lanes[lane].head).blocks);
    }
    const Handle handle = link.lanes[lane].head;
    unqueue(link, lane);
    more_follow_ = link.waiting != 0;
    cross(index, link, lane, handle);
  }
  return false;
}

/// The queue of a program's link is its ring. The program posts what it has credits for.
template <typename Policy>
bool Walker<Policy>::serve_ring(LinkIndex index, LinkRecord& link) {
  Ring& ring = image_.ring(index);
  std::uint32_t head = ring.head.load(std::memory_order_relaxed);
  const std::uint32_t tail = ring.tail(std::memory_order_acquire);
  if (!Ring::are_ends(head, tail)) return false;
  std::uint32_t left = kPacketsOfAVisit;
  while (head != tail) {
    if (left-- == 0) return true;
    const Handle handle = ring.handles[head % kRingEntries].load(std::memory_order_relaxed);
    Slot& slot = image_.slot(handle);
    if (slot.where.load(std::memory_order_relaxed) == Where::built(index, head).word()) {
      const unsigned lane = slot.out_lane % kLanes;
      if (lane != kManagementLane && !has_credit(index, link, lane, slot.blocks)) {
        link.waits.store(1, std::memory_order_seq_cst);
        if (!has_credit(index, link, lane, slot.blocks)) return false;
      }
      more_follow_ = head + 1 != tail;
      cross(index, link, lane, handle);
    }
    ring.head.store(++head, std::memory_order_release);
    Policy::at(CrashPoint::ring_head_moved);
  }
  return false;
}

template <typename Policy>
[[gnu::always_inline]] inline bool Walker<Policy>::has_credit(LinkIndex index, LinkRecord& link,
                                                              unsigned lane, std::uint32_t blocks) {
  LinkRecord::Lane& record = link.lanes[lane];
  const auto lacks = [&] {
    const std::uint32_t limit = record.freed_seen + image_.capacity(lane);
    return static_cast<std::int32_t>(limit - (record.sent + blocks)) < 0;
  };
  // Others write `freed` all the time, and a ring's head: both are read when what was seen of them
  // does not suffice.
  if (lacks()) {
    record.freed_seen = link.freed[lane].load(std::memory_order_seq_cst);
    if (lacks()) return false;
  }
  return !image_.leads_to_end(index) || has_ring_place(index);
}

template <typename Policy>
bool Walker<Policy>::has_ring_place(LinkIndex index) {
  Ring& ring = image_.ring(index);
  const std::uint32_t tail = ring.tail(std::memory_order_relaxed);
  if (tail - ring.head_seen < kRingEntries) return true;
  ring.head_seen = ring.head.load(std::memory_order_acquire);
  return tail - ring.head_seen < kRingEntries;
}

/// VL15 has no credits and never waits for them (IBA 7.9): `cross` drops it if there is no room.
template <typename Policy>
[[gnu::always_inline]] inline std::uint32_t Walker<Policy>::ready_lanes(LinkIndex index,
                                                                        LinkRecord& link) {
  std::uint32_t ready = link.waiting & 1u << kManagementLane;
  for (std::uint32_t rest = link.waiting & kLaneMask & ~ready; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (has_credit(index, link, lane, image_.slot(link.lanes[lane].head).blocks)) {
      ready |= 1u << lane;
    }
  }
  return ready;
}

template <typename Policy>
bool Walker<Policy>::may_leave(const LinkRecord& link) {
  const std::uint64_t ps_per_byte = link.ps_per_byte.load(std::memory_order_relaxed);
  return ps_per_byte == 0 || now() + kEarly >= free_at(link, ps_per_byte);
}

/// When the link's clock lets the next packet leave: at most the time of one ahead.
template <typename Policy>
TimeNs Walker<Policy>::free_at(const LinkRecord& link, std::uint64_t ps_per_byte) {
  const TimeNs packet_time = kEarly + kPacketBytesMax * ps_per_byte / 1000;
  // Twice: `now` was read when the walk began.
  return is_of_another_clock(link.free_at, now(), 2 * packet_time) ? now() : link.free_at;
}

/// The clock of a link with a backlog never skips, however late it is served, so that the average
/// rate is right; that of an idle link starts now.
template <typename Policy>
void Walker<Policy>::charge_clock(LinkRecord& link, std::uint64_t ps_per_byte,
                                  std::uint32_t bytes) {
  const TimeNs late = link.has_backlog != 0 ? std::min(now(), kCatchUp) : 0;
  link.free_at = std::max(free_at(link, ps_per_byte), now() - late) + bytes * ps_per_byte / 1000;
  if (link.waiting == 0) link.has_backlog = 0;
}

/// Returns false if the packet is damaged on the cable: the port at its end finds that by the VCRC
/// (IBA 7.8.2), and discards it. The blocks do not count as sent, as if the next flow-control
/// packet had told so.
template <typename Policy>
bool Walker<Policy>::pass_cable(LinkIndex index, LinkRecord& link, Handle handle) {
  Slot& slot = image_.slot(handle);
  const CableTraits cable = link.cable.load(std::memory_order_relaxed);
  if constexpr (Policy::kIsVirtual) {
    slot.arrives_at = std::max(now(), link.free_at) + cable.delay_ns;
  } else if (cable.delay_ns != 0) {
    slot.arrives_at = (slot.arrives_at != 0 ? slot.arrives_at : now()) + cable.delay_ns;
  }
  constexpr std::uint64_t kVcrcBytes = 2;
  const std::uint32_t errors =
      cable.has_bit_errors == 0 ? 0 : link.bit_errors.errors_in((slot.bytes + kVcrcBytes) * 8);
  if (cable.is_watched != 0) {
    image_.tap().add({.at = now(),
                      .link = index,
                      .bytes = slot.bytes,
                      .lane = slot.out_lane,
                      .is_damaged = static_cast<std::uint8_t>(errors != 0)},
                     slot.packet());
  }
  if (cable.has_bit_errors != 0) count_integrity(link, errors != 0);
  if (errors == 0) return true;
  link.damage.symbol_errors += errors;
  // Programs add to it, too.
  std::atomic_ref(link.damage.packets).fetch_add(1, std::memory_order_relaxed);
  std::uint64_t counted = 0;
  discard(handle, slot, counted);
  return false;
}

/// The daemon sends the trap.
template <typename Policy>
void Walker<Policy>::count_integrity(LinkRecord& link, bool is_damaged) {
  const std::uint8_t threshold = link.local_physical_errors.load(std::memory_order_relaxed);
  if (!link.integrity.is_lost_with(is_damaged, threshold)) return;
  ++link.integrity_errors;
  give_keeper_news();
}

template <typename Policy>
[[gnu::always_inline]] inline Handle Walker<Policy>::unqueue(LinkRecord& link, unsigned lane) {
  LinkRecord::Lane& queue = link.lanes[lane];
  const Handle handle = queue.head;
  queue.head = image_.slot(handle).next;
  if (queue.head == 0) {
    queue.tail = 0;
    link.waiting &= ~(1u << lane);
  }
  if (link.stalled != 0) leave_stall(link, lane);
  Policy::at(CrashPoint::unqueued);
  return handle;
}

/// A packet leaves a queue of a link that was left with packets.
template <typename Policy>
void Walker<Policy>::leave_stall(LinkRecord& link, unsigned lane) {
  note_unblocked(link);
  if ((link.stalled >> lane & 1) == 0) return;
  link.head_since[lane] = 0;
  end_wait(link.short_since[lane], link.counters.lane_wait_ns[lane]);
  if (link.lanes[lane].head != 0) return;
  link.queue_since[lane] = 0;
  link.stalled &= ~(1u << lane);
  if (link.stalled == 0) clear_timer(link);
}

/// Discards the first packet of each lane if the link is down for it or its time is over. True: one
/// was.
template <typename Policy>
bool Walker<Policy>::discard_what_cannot_leave(LinkIndex index, LinkRecord& link) {
  const auto passes = static_cast<Passes>(link.passes.load(std::memory_order_relaxed));
  bool discarded = false;
  for (std::uint32_t rest = link.waiting & kLaneMask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    const Handle handle = link.lanes[lane].head;
    Slot& slot = image_.slot(handle);
    const bool is_down =
        passes == Passes::nothing || (passes == Passes::management && lane != kManagementLane);
    if (is_down) {
      unqueue(link, lane);
      discard(handle, slot, link.counters.inactive_discards);
    } else if (is_too_long_the_first(index, link, lane, slot)) {
      unqueue(link, lane);
      discard(handle, slot, link.counters.hoq_discards);
    } else if (has_expired(link, lane, slot)) {
      unqueue(link, lane);
      discard(handle, slot, link.counters.lifetime_discards);
    } else {
      continue;
    }
    discarded = true;
  }
  return discarded;
}

/// HOQLife (IBA 18.2.5.4). On the link to a program, the first packet that is too late stalls the
/// lanes, as VLStallCount does in a switch. A program that runs again gets what it has room for.
template <typename Policy>
bool Walker<Policy>::is_too_long_the_first(LinkIndex index, LinkRecord& link, unsigned lane,
                                           const Slot& slot) {
  const TimeNs life = link.hoq_life_us.load(std::memory_order_relaxed) * kMicrosecond;
  if (life == 0) return false;
  const TimeNs since = link.head_since[lane];
  const bool is_late = since != 0 && elapsed(since, now()) > life;
  if (!leads_to_program(index, link)) return is_late;
  if (!is_late && !is_passed_over(index)) return false;
  if (has_credit(index, link, lane, slot.blocks)) return false;
  Ring& ring = image_.ring(index);
  ring.passed_over_at = ring.head.load(std::memory_order_relaxed);
  ring.is_passed_over = 1;
  return true;
}

/// Until it takes something, or is the only program of its host.
template <typename Policy>
bool Walker<Policy>::is_passed_over(LinkIndex index) const {
  const LinkRecord& link = image_.link(index);
  if (!leads_to_program(index, link)) return false;
  if (link.hoq_life_us.load(std::memory_order_relaxed) == 0) return false;
  const Ring& ring = image_.ring(index);
  return ring.is_passed_over != 0 &&
         ring.passed_over_at == ring.head.load(std::memory_order_relaxed);
}

/// And not to a trunk, whose link is a cable's.
template <typename Policy>
bool Walker<Policy>::leads_to_program(LinkIndex index, const LinkRecord& link) const {
  return image_.leads_to_end(index) && link.start_port >= kFirstEndPort &&
         image_.node(link.start).kind == RecordKind::host;
}

/// The lifetime of packets in a switch (IBA 18.2.5.4).
template <typename Policy>
bool Walker<Policy>::has_expired(const LinkRecord& link, unsigned lane, const Slot& slot) {
  const TimeNs lifetime =
      image_.node(link.start).lifetime_us.load(std::memory_order_relaxed) * kMicrosecond;
  if (lifetime == 0 || (link.stalled >> lane & 1) == 0) return false;
  const TimeNs since = slot.queued_at != 0 ? slot.queued_at : link.queue_since[lane];
  return since != 0 && elapsed(since, now()) > lifetime;
}

template <typename Policy>
void Walker<Policy>::note_blocked(LinkIndex index, LinkRecord& link, bool by_clock) {
  link.has_backlog = by_clock;
  if (!by_clock) begin(link.blocked_at);
  const TimeNs hoq = link.hoq_life_us.load(std::memory_order_relaxed) * kMicrosecond;
  const TimeNs lifetime =
      image_.node(link.start).lifetime_us.load(std::memory_order_relaxed) * kMicrosecond;
  TimeNs due = by_clock ? link.free_at : kNever;
  const std::uint32_t ready = by_clock ? ready_lanes(index, link) : 0;
  for (std::uint32_t rest = link.waiting & kLaneMask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    begin(link.queue_since[lane]);
    begin(link.head_since[lane]);
    if ((ready >> lane & 1) == 0) begin(link.short_since[lane]);
    if (hoq != 0) due = std::min(due, link.head_since[lane] + hoq + 1);
    TimeNs& queued_at = image_.slot(link.lanes[lane].head).queued_at;
    if (queued_at != 0) begin(queued_at);
    const TimeNs since = queued_at != 0 ? queued_at : link.queue_since[lane];
    if (lifetime != 0) due = std::min(due, since + lifetime + 1);
  }
  link.stalled = link.waiting;
  if (due != kNever) {
    set_timer(index, link, due);
  } else {
    clear_timer(link);
  }
}

/// A wait begins now, unless it has begun. Other threads of this machine may have read the clock
/// somewhat later.
template <typename Policy>
void Walker<Policy>::begin(TimeNs& since) {
  if (since == 0 || is_of_another_clock(since, now(), kSecond)) since = now();
}

template <typename Policy>
void Walker<Policy>::note_unblocked(LinkRecord& link) {
  end_wait(link.blocked_at, link.counters.wait_ns);
}

template <typename Policy>
void Walker<Policy>::end_wait(TimeNs& since, TimeNs& wait_ns) {
  if (since != 0) wait_ns += elapsed(since, now());
  since = 0;
}

}  // namespace verbatim::fabric
