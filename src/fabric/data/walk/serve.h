#pragma once

#include <algorithm>
#include <bit>

#include "fabric/data/walk/arbiter.h"
#include "fabric/data/walk/walker.h"

/// Serving a link: which of the packets that wait for it leaves next, and what cannot leave.
namespace verbatim::fabric {

/// Moves packets as far as credits, the clock and the bound of a visit allow. True: there are more
/// that could leave.
template <typename Policy>
bool Walker<Policy>::serve(LinkIndex index, LinkRecord& link) {
  if (image_.comes_from_end(index)) return serve_ring(index, link);
  std::uint32_t left = kPacketsOfAVisit;
  while (const std::uint32_t waiting = link.waiting & kLaneMask) {
    if (left-- == 0) return true;
    const bool passes_all =
        link.passes.load(std::memory_order_relaxed) == static_cast<std::uint8_t>(Passes::all);
    if ((!passes_all || link.stalled != 0) && discard_what_cannot_leave(link)) continue;
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
        return false;
      }
    }
    auto lane = static_cast<unsigned>(std::countr_zero(ready));
    if (!std::has_single_bit(waiting)) {
      Arbiter arbiter(link, image_.port(image_.node(link.start), link.start_port));
      lane = arbiter.choose(ready);
      arbiter.charge(image_.slot(link.lanes[lane].head).blocks);
    }
    const Handle handle = link.lanes[lane].head;
    unqueue(link, lane);
    cross(index, link, lane, handle);
  }
  return false;
}

/// The queue of a program's link is its ring. The program posts what it has credits for.
template <typename Policy>
bool Walker<Policy>::serve_ring(LinkIndex index, LinkRecord& link) {
  Ring& ring = image_.ring(index);
  std::uint32_t head = ring.head.load(std::memory_order_relaxed);
  const std::uint32_t tail = ring.tail.load(std::memory_order_acquire);
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
      cross(index, link, lane, handle);
    }
    ring.head.store(++head, std::memory_order_release);
    Policy::at(CrashPoint::ring_head_moved);
  }
  return false;
}

template <typename Policy>
bool Walker<Policy>::has_credit(LinkIndex index, const LinkRecord& link, unsigned lane,
                                std::uint32_t blocks) const {
  // Acquire: what the buffer's last packets have left is ours to use.
  const std::uint32_t limit =
      link.freed[lane].load(std::memory_order_seq_cst) + image_.capacity(lane);
  if (static_cast<std::int32_t>(limit - (link.lanes[lane].sent + blocks)) < 0) return false;
  if (!image_.leads_to_end(index)) return true;
  const Ring& ring = image_.ring(index);
  return ring.tail.load(std::memory_order_relaxed) - ring.head.load(std::memory_order_acquire) <
         kRingEntries;
}

/// VL15 has no credits and never waits for them (IBA 7.9): `cross` drops it if there is no room.
template <typename Policy>
std::uint32_t Walker<Policy>::ready_lanes(LinkIndex index, const LinkRecord& link) const {
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
  return link.ps_per_byte.load(std::memory_order_relaxed) == 0 || now() + kEarly >= link.free_at;
}

/// The clock of a link with a backlog never skips, however late it is served, so that the average
/// rate is right; that of an idle link starts now.
template <typename Policy>
void Walker<Policy>::charge_clock(LinkRecord& link, std::uint32_t bytes) {
  const std::uint64_t ps_per_byte = link.ps_per_byte.load(std::memory_order_relaxed);
  if (ps_per_byte == 0) return;
  const TimeNs late = link.has_backlog != 0 ? std::min(now(), kCatchUp) : 0;
  link.free_at = std::max(link.free_at, now() - late) + bytes * ps_per_byte / 1000;
  if (link.waiting == 0) link.has_backlog = 0;
}

template <typename Policy>
Handle Walker<Policy>::unqueue(LinkRecord& link, unsigned lane) {
  LinkRecord::Lane& queue = link.lanes[lane];
  const Handle handle = queue.head;
  queue.head = image_.slot(handle).next;
  if (queue.head == 0) {
    queue.tail = 0;
    link.waiting &= ~(1u << lane);
  }
  if ((link.stalled >> lane & 1) != 0) {
    link.head_since[lane] = 0;
    if (queue.head == 0) {
      link.stalled &= ~(1u << lane);
      link.queue_since[lane] = 0;
    }
  }
  Policy::at(CrashPoint::unqueued);
  return handle;
}

/// Discards the first packet of each lane if the link is down for it or its time is over. True: one
/// was.
template <typename Policy>
bool Walker<Policy>::discard_what_cannot_leave(LinkRecord& link) {
  const auto passes = static_cast<Passes>(link.passes.load(std::memory_order_relaxed));
  bool discarded = false;
  for (std::uint32_t rest = link.waiting & kLaneMask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    const Handle handle = link.lanes[lane].head;
    Slot& slot = image_.slot(handle);
    const bool is_down =
        passes == Passes::nothing || (passes == Passes::management && lane != kManagementLane);
    const TimeNs hoq = link.hoq_life_us.load(std::memory_order_relaxed) * kMicrosecond;
    const TimeNs head_since = link.head_since[lane];
    if (is_down) {
      unqueue(link, lane);
      discard(handle, slot, link.counters.inactive_discards);
    } else if (hoq != 0 && head_since != 0 && elapsed(head_since, now()) > hoq) {
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
  if (!by_clock && link.blocked_at == 0) link.blocked_at = now();
  const TimeNs hoq = link.hoq_life_us.load(std::memory_order_relaxed) * kMicrosecond;
  const TimeNs lifetime =
      image_.node(link.start).lifetime_us.load(std::memory_order_relaxed) * kMicrosecond;
  TimeNs due = by_clock ? link.free_at : kNever;
  for (std::uint32_t rest = link.waiting & kLaneMask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (link.queue_since[lane] == 0) link.queue_since[lane] = now();
    if (link.head_since[lane] == 0) link.head_since[lane] = now();
    if (hoq != 0) due = std::min(due, link.head_since[lane] + hoq + 1);
    const TimeNs queued_at = image_.slot(link.lanes[lane].head).queued_at;
    const TimeNs since = queued_at != 0 ? queued_at : link.queue_since[lane];
    if (lifetime != 0) due = std::min(due, since + lifetime + 1);
  }
  link.stalled = link.waiting;
  if (due != kNever) set_timer(index, link, due);
}

template <typename Policy>
void Walker<Policy>::set_timer(LinkIndex index, LinkRecord& link, TimeNs at) {
  if constexpr (Policy::kIsVirtual) {
    // Each packet that comes to a link which waits asks for the same time.
    if (link.due_at != at) policy_.schedule(at, index, 0);
    link.due_at = at;
    return;
  }
  link.due_at = at;
  Header& header = image_.header();
  if (!link.is_timed.exchange(1, std::memory_order_acq_rel)) {
    LinkIndex first = header.timed.load(std::memory_order_relaxed);
    do {
      link.next_timed.store(first, std::memory_order_relaxed);
    } while (!header.timed.compare_exchange_weak(first, index, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed));
  }
  TimeNs earliest = header.earliest.load(std::memory_order_relaxed);
  while (at < earliest && !header.earliest.compare_exchange_weak(earliest, at)) {
  }
  // Sequentially consistent, as above: either the keeper, which looks again after it has said when
  // it looks next, sees the time, or this sees that it comes too late.
  if (at + kKeeperPatience < header.keeper_due.load(std::memory_order_seq_cst)) {
    tell_program(image_.from_end(0));
  }
}

}  // namespace verbatim::fabric
