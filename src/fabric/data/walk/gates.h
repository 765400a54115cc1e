#pragma once

#include <algorithm>
#include <bit>
#include <utility>

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
  if (handle != 0) {
    image_.slot(handle).next = 0;
    take_inbox(link, handle);
  }
  while (serve(index, link)) {
  }
  flush();
  if (image_.leads_to_end(index)) tell_program(index);
  ring_bells();
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
      give_keeper_news();
    }
    return;
  }
}

template <typename Policy>
void Walker<Policy>::visit() {
  while (!owned_.empty()) work(owned_.pop());
  if (!bells_.empty()) [[unlikely]]
    ring_bells();
}

template <typename Policy>
void Walker<Policy>::work(Owned owned) {
  Policy::at(CrashPoint::gate_taken);
  LinkRecord& link = image_.link(owned.link);
  Handle newest = owned.newest;
  for (;;) {
    if (newest != 0) take_inbox(link, newest);
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
  give_keeper_news();
}

/// The inbox begins with the newest packet, queues with the oldest.
template <typename Policy>
void Walker<Policy>::take_inbox(LinkRecord& link, Handle newest) {
  Handle oldest = 0;
  std::uint32_t lanes = 0;
  std::uint32_t left = image_.extent().slots;  // A chain without an end ends here.
  for (Handle handle = newest; handle != 0 && left != 0; --left) {
    Slot& slot = image_.slot(handle);
    const Handle next = slot.next;
    slot.next = oldest;
    oldest = handle;
    const std::uint32_t lane = 1u << slot.out_lane % kLanes;
    lanes |= lane;
    slot.queued_at = (link.stalled & lane) != 0 ? now() : 0;
    handle = next;
  }
  if ((lanes & (lanes - 1)) == 0) {
    return enqueue(link, static_cast<unsigned>(std::countr_zero(lanes)), oldest, newest);
  }
  for (Handle handle = oldest; handle != 0 && left != image_.extent().slots; ++left) {
    Slot& slot = image_.slot(handle);
    const Handle next = std::exchange(slot.next, 0);
    enqueue(link, slot.out_lane % kLanes, handle, handle);
    handle = next;
  }
}

/// Adds a list of packets to the lane's queue.
template <typename Policy>
void Walker<Policy>::enqueue(LinkRecord& link, unsigned lane, Handle first, Handle last) {
  LinkRecord::Lane& queue = link.lanes[lane];
  if (queue.tail != 0) {
    image_.slot(queue.tail).next = first;
  } else {
    queue.head = first;
  }
  queue.tail = last;
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
    if (image_.comes_from_end(freed.link)) note_room(image_.end_of(freed.link));
    push(freed.link, 0, 0);
  }
  if (!slot_owners_.empty()) tell_slot_owners();
  freed_.clear();
}

/// Programs that have no slot left are told of one that is free.
template <typename Policy>
void Walker<Policy>::tell_slot_owners() {
  // What is freed here comes before the look whether somebody waits for it.
  if (!Policy::kIsVirtual && freed_.empty()) full_fence();
  for (const std::uint32_t owner : slot_owners_) {
    EndRecord& end = image_.end(owner);
    if (end.waits_for_slots.load(std::memory_order_seq_cst) == 0 ||
        end.waits_for_slots.exchange(0) == 0) {
      continue;
    }
    note_room(owner);
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

/// Notes that the program at the end of the link is to be woken if it sleeps.
template <typename Policy>
void Walker<Policy>::tell_program(LinkIndex link) {
  const std::uint32_t end = image_.end_of(link);
  if (image_.end(end).sleeps.load(std::memory_order_seq_cst) == 0) return;
  if (std::ranges::find(bells_, end) != bells_.end()) return;
  if (bells_.full()) ring_bells();
  bells_.push(end);
}

/// A system call for each, in which a thread may be stopped for long: so at the end of a walk, when
/// it owns no gate.
template <typename Policy>
[[gnu::noinline]] void Walker<Policy>::ring_bells() {
  for (const std::uint32_t end : bells_) {
    if (image_.end(end).sleeps.exchange(0) == 0) continue;
    Policy::at(CrashPoint::sleeper_found);
    policy_.wake(end);
  }
  bells_.clear();
}

/// Sequentially consistent: either this sees that the keeper sleeps, or the keeper, which looks
/// again after it has said so, sees the news.
template <typename Policy>
void Walker<Policy>::give_keeper_news() {
  image_.header().keeper_news.store(1, std::memory_order_seq_cst);
  tell_program(image_.from_end(0));
}

template <typename Policy>
void Walker<Policy>::note_room(std::uint32_t end) {
  image_.end(end).has_credit_news.store(1, std::memory_order_seq_cst);
  tell_program(image_.to_end(end));
}

template <typename Policy>
void Walker<Policy>::tell_of_room(std::uint32_t end) {
  note_room(end);
  ring_bells();
}

template <typename Policy>
void Walker<Policy>::tell_keeper() {
  tell_program(image_.from_end(0));
  ring_bells();
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
