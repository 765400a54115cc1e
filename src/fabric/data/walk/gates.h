#pragma once

#include <sched.h>

#include "base/os/fence.h"
#include "fabric/data/walk/walker.h"

/// Gates: how a walker comes to own links, what it does with each, and how it leaves them.
namespace verbatim::fabric {

template <typename Policy>
void Walker<Policy>::start(LinkIndex link) {
  now_ = 0;
  packets_ = 0;
  push(link, 0, 0);
  visit();
}

template <typename Policy>
void Walker<Policy>::arrive(LinkIndex index, Handle handle) {
  now_ = 0;
  LinkRecord& link = image_.link(index);
  if (handle != 0) append(link, handle);
  while (serve(index, link)) {
  }
  flush();
  if (image_.leads_to_end(index)) tell_program(index);
}

/// Adds a chain to the link's inbox (0: only news), or takes the gate if nobody has it.
template <typename Policy>
void Walker<Policy>::push(LinkIndex index, Handle newest, Handle oldest) {
  if constexpr (Policy::kIsVirtual) {
    policy_.schedule(0, index, 0);
    return;
  }
  LinkRecord& link = image_.link(index);
  std::uint64_t word = link.gate.load(std::memory_order_relaxed);
  for (;;) {
    const Gate gate(word);
    Gate next = gate;
    if (newest != 0) {
      image_.slot(oldest).next = gate.newest();
      next = next.with_newest(newest);
    }
    const Handle inbox = next.newest();
    const bool takes = gate.owner() == 0 && !owned_.full() && packets_ < kPacketsOfAWalk;
    next = takes ? Gate(me_) : next.with_news();
    // Release: the chain is there. Acquire: so is what the last owner has written.
    if (!link.gate.compare_exchange_weak(word, next.word(), std::memory_order_acq_rel,
                                         std::memory_order_relaxed)) {
      continue;
    }
    if (takes) {
      owned_.push({.link = index, .newest = inbox});
    } else if (gate.owner() == 0) {
      image_.header().keeper_news.store(1, std::memory_order_release);
      tell_program(image_.from_end(0));
    }
    return;
  }
}

template <typename Policy>
void Walker<Policy>::visit() {
  while (!owned_.empty()) work(owned_.pop());
}

template <typename Policy>
void Walker<Policy>::work(Owned owned) {
  Policy::at(CrashPoint::gate_taken);
  LinkRecord& link = image_.link(owned.link);
  Handle newest = owned.newest;
  for (;;) {
    take_inbox(link, newest);
    newest = 0;
    const bool has_more = serve(owned.link, link);
    flush();  // Before the gate opens: so the next mover's packets come later.
    if (packets_ >= kPacketsOfAWalk) {
      leave_over(link);
      break;
    }
    if (has_more) continue;
    if (leave(link)) break;
    newest = Gate(link.gate.exchange(me_, std::memory_order_acq_rel)).newest();
    Policy::at(CrashPoint::inbox_taken);
  }
  Policy::at(CrashPoint::gate_left);
  if (image_.leads_to_end(owned.link)) tell_program(owned.link);
}

/// False: something has come meanwhile. Sequentially consistent: after it `tell_program` looks
/// whether the program sleeps, which looks at its ring after it has said so.
template <typename Policy>
bool Walker<Policy>::leave(LinkRecord& link) {
  std::uint64_t mine = me_;
  return link.gate.compare_exchange_strong(mine, 0, std::memory_order_seq_cst,
                                           std::memory_order_relaxed);
}

/// The next one who has news for the link, or the daemon, goes on.
template <typename Policy>
void Walker<Policy>::leave_over(LinkRecord& link) {
  std::uint64_t word = link.gate.load(std::memory_order_relaxed);
  while (!link.gate.compare_exchange_weak(word, Gate(word).with_owner(0).with_news().word(),
                                          std::memory_order_seq_cst, std::memory_order_relaxed)) {
  }
  image_.header().keeper_news.store(1, std::memory_order_seq_cst);
  tell_program(image_.from_end(0));
}

/// The inbox begins with the newest packet, queues with the oldest.
template <typename Policy>
void Walker<Policy>::take_inbox(LinkRecord& link, Handle newest) {
  Handle oldest_first = 0;
  std::uint32_t left = image_.extent().slots;  // A chain without an end ends here.
  for (Handle handle = newest; handle != 0 && left != 0; --left) {
    Slot& slot = image_.slot(handle);
    const Handle next = slot.next;
    slot.next = oldest_first;
    oldest_first = handle;
    handle = next;
  }
  for (Handle handle = oldest_first; handle != 0 && left != image_.extent().slots; ++left) {
    const Handle next = image_.slot(handle).next;
    append(link, handle);
    handle = next;
  }
}

template <typename Policy>
void Walker<Policy>::append(LinkRecord& link, Handle handle) {
  Slot& slot = image_.slot(handle);
  const unsigned lane = slot.out_lane % kLanes;
  LinkRecord::Lane& queue = link.lanes[lane];
  slot.next = 0;
  slot.queued_at = (link.stalled >> lane & 1) != 0 ? now() : 0;
  if (queue.tail != 0) {
    image_.slot(queue.tail).next = handle;
  } else {
    queue.head = handle;
  }
  queue.tail = handle;
  link.waiting |= 1u << lane;
  Policy::at(CrashPoint::queued);
}

/// Hands the chains on, then the credits back.
template <typename Policy>
void Walker<Policy>::flush() {
  for (const Chain& chain : chains_) {
    push(chain.link, chain.newest, chain.oldest);
    Policy::at(CrashPoint::chain_pushed);
  }
  chains_.clear();
  for (const Freed& freed : freed_) {
    LinkRecord& link = image_.link(freed.link);
    // Sequentially consistent, as is `waits`: either this sees that the link waits, or its mover,
    // which looks again after it has said so, sees the credit.
    link.freed[freed.lane].fetch_add(freed.blocks, std::memory_order_seq_cst);
    Policy::at(CrashPoint::credit_freed);
    if (link.waits.load(std::memory_order_seq_cst) == 0 || link.waits.exchange(0) == 0) continue;
    Policy::at(CrashPoint::waiter_told);
    if (image_.comes_from_end(freed.link)) {
      image_.end(image_.end_of(freed.link)).has_credit_news.store(1, std::memory_order_seq_cst);
      tell_program(freed.link);
    }
    push(freed.link, 0, 0);
  }
  tell_slot_owners();
}

/// Programs that have no slot left are told of one that is free.
template <typename Policy>
void Walker<Policy>::tell_slot_owners() {
  // What is freed here comes before the look whether somebody waits for it.
  if (freed_.empty() && !slot_owners_.empty()) full_fence();
  freed_.clear();
  for (const std::uint32_t owner : slot_owners_) {
    EndRecord& end = image_.end(owner);
    if (end.waits_for_slots.load(std::memory_order_seq_cst) == 0 ||
        end.waits_for_slots.exchange(0) == 0) {
      continue;
    }
    end.has_credit_news.store(1, std::memory_order_seq_cst);
    tell_program(image_.to_end(owner));
  }
  slot_owners_.clear();
}

template <typename Policy>
void Walker<Policy>::tell_of_credits() {
  now_ = 0;
  packets_ = 0;
  flush();
  visit();
}

/// Rings the doorbell of the program at the end of the link if it sleeps.
template <typename Policy>
void Walker<Policy>::tell_program(LinkIndex link) {
  const std::uint32_t end = image_.end_of(link);
  std::atomic<std::uint32_t>& sleeps = image_.end(end).sleeps;
  if (sleeps.load(std::memory_order_seq_cst) == 0 || sleeps.exchange(0) == 0) return;
  policy_.wake(end);
}

template <typename Policy>
bool Walker<Policy>::run_due(TimeNs now) {
  Header& header = image_.header();
  TimeNs earliest = header.earliest.load(std::memory_order_relaxed);
  if (now < earliest ||
      !header.earliest.compare_exchange_strong(earliest, kNever, std::memory_order_acq_rel)) {
    return false;
  }
  LinkIndex next = header.timed.exchange(0, std::memory_order_acq_rel);
  for (std::uint32_t left = image_.extent().links; next != 0 && left != 0; --left) {
    const LinkIndex index = next;
    LinkRecord& link = image_.link(index);
    next = link.next_timed.load(std::memory_order_relaxed);
    link.is_timed.store(0, std::memory_order_release);
    start(index);
  }
  return true;
}

template <typename Policy>
void Walker<Policy>::serve_left_over() {
  if (image_.header().keeper_news.exchange(0) == 0) return;
  for (LinkIndex i = 1; i < image_.extent().links; ++i) {
    const Gate gate(image_.link(i).gate.load(std::memory_order_acquire));
    if (gate.owner() == 0 && (gate.has_news() || gate.newest() != 0)) start(i);
  }
}

}  // namespace verbatim::fabric
