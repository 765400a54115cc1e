#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "fabric/data/walk/walker.h"

/// How a packet moves, and how what a dead mover has left half done is made whole. Both lie here
/// because the order of stores of the one is what the other relies on:
///
/// - A packet is where its word `where` says. All else is computed from these words.
/// - Crossing into a node: `where`; FCTBS; then the chain for the next link; then the credit of the
///   buffer that it left; then whoever waits for that. Until the chain is handed on nobody else
///   touches the packet: so FCTBS is at least the number of each packet in the buffer.
/// - Handing over to a program: FCTBS after it into the slot; `where`; FCTBS; the handle; the
///   ring's tail. It can be done again by its number.
/// - Taking out of a ring: `where`, then the ring's head.
/// - A discard: `where` is 0, then the credit.
/// - A multicast: copies, then the branch of the original: until then they do not count.
namespace verbatim::fabric {

/// The packet is there from now on. No store of the compiler's passes this one: what follows it in
/// the code is what a death may leave undone.
inline void commit(Slot& slot, Where where) {
  slot.where.store(where.word(), std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

template <typename Policy>
void Walker<Policy>::cross(LinkIndex index, LinkRecord& link, unsigned lane, Handle handle) {
  Slot& slot = image_.slot(handle);
  const LinkIndex left = slot.from;
  const unsigned left_lane = slot.lane % kLanes;
  const std::uint32_t blocks = slot.blocks;
  if (lane == kManagementLane && !has_credit(index, link, lane, blocks)) {
    return discard(handle, slot, link.counters.management_dropped);
  }
  ++packets_;
  ++link.counters.packets;
  link.counters.words += slot.bytes / 4;
  link.counters.multicast_packets += Routes::is_multicast(slot.dlid);
  if (link.blocked_at != 0) {
    link.counters.wait_ns += elapsed(link.blocked_at, now());
    link.blocked_at = 0;
  }
  charge_clock(link, slot.bytes);
  const std::uint32_t delay = link.delay_ns.load(std::memory_order_relaxed);
  if constexpr (Policy::kIsVirtual) {
    slot.arrives_at = std::max(now(), link.free_at) + delay;
  } else if (delay != 0) {
    slot.arrives_at = (slot.arrives_at != 0 ? slot.arrives_at : now()) + delay;
  }
  if (image_.leads_to_end(index)) {
    hand_over(index, link, lane, handle);
  } else {
    const std::uint32_t sent_after = link.lanes[lane].sent + blocks;
    commit(slot, Where::in_buffer(index, lane, sent_after));
    Policy::at(CrashPoint::committed);
    link.lanes[lane].sent = sent_after;
    Policy::at(CrashPoint::sent_counted);
    slot.from = index;
    slot.lane = static_cast<std::uint8_t>(lane);
    route(index, link, handle, slot);
  }
  if (left != 0) free_credit(left, left_lane, blocks);
}

template <typename Policy>
void Walker<Policy>::hand_over(LinkIndex index, LinkRecord& link, unsigned lane, Handle handle) {
  Slot& slot = image_.slot(handle);
  Ring& ring = image_.ring(index);
  const std::uint32_t tail = ring.tail.load(std::memory_order_relaxed);
  const std::uint32_t sent_after = link.lanes[lane].sent + slot.blocks;
  slot.sent_after = sent_after;
  Policy::at(CrashPoint::ring_place_noted);
  commit(slot, Where::in_ring(index, lane, tail));
  Policy::at(CrashPoint::committed);
  // The slot may be the program's from the last store on.
  const TimeNs arrives_at = slot.arrives_at;
  finish_hand_over(link, ring, lane, handle, tail, sent_after);
  if constexpr (Policy::kIsVirtual) policy_.schedule(arrives_at, index, 0);
}

/// The same when done twice; the last store hands the packet over.
template <typename Policy>
void Walker<Policy>::finish_hand_over(LinkRecord& link, Ring& ring, unsigned lane, Handle handle,
                                      std::uint32_t index, std::uint32_t sent_after) {
  link.lanes[lane].sent = sent_after;
  Policy::at(CrashPoint::sent_counted);
  ring.handles[index % kRingEntries].store(handle, std::memory_order_relaxed);
  Policy::at(CrashPoint::handle_in_ring);
  ring.tail.store(index + 1, std::memory_order_release);
  Policy::at(CrashPoint::handed_over);
}

/// The packet stands in the buffer at the end of the link: finds its next link, and queues it there
/// by way of a chain.
template <typename Policy>
void Walker<Policy>::route(LinkIndex index, LinkRecord& link, Handle handle, Slot& slot) {
  const NodeRecord& node = image_.node(link.end);
  const Routes routes(image_);
  if (node.kind == RecordKind::hub) {
    if (!image_.comes_from_end(index)) slot.at_node = link.start;
  } else {
    slot.at_port = link.end_port;
    if (Routes::is_multicast(slot.dlid)) {
      return replicate(link, handle, slot, routes.branches_of(node, link.end_port, slot.dlid));
    }
  }
  const Exit exit = routes.exit_of(node, link.end_port, slot);
  if (exit.fault != RouteFault::none) return discard_unroutable(link, handle, slot, exit);
  chain(exit.link, handle, slot, exit.lane);
}

/// Counted by the port where the packet came in; by the output port if it is larger than that one's
/// MTU, or of a partition that the port does not let out.
template <typename Policy>
void Walker<Policy>::discard_unroutable(LinkRecord& in, Handle handle, Slot& slot,
                                        const Exit& exit) {
  LinkRecord::Counters& counters = in.counters;
  if (exit.fault == RouteFault::lane) return discard(handle, slot, counters.lane_errors);
  if (exit.fault == RouteFault::looping) return discard(handle, slot, counters.looping_errors);
  if (exit.fault == RouteFault::dlid) return discard(handle, slot, counters.dlid_errors);
  if (exit.fault == RouteFault::p_key_in) return discard(handle, slot, counters.p_key_errors_in);
  LinkRecord::Counters& of_output = image_.link(exit.link).counters;
  // The owners of all links that arrive at this node add to it.
  std::atomic_ref(exit.fault == RouteFault::mtu ? of_output.mtu_discards : of_output.p_key_errors)
      .fetch_add(1, std::memory_order_relaxed);
  std::uint64_t counted = 0;
  discard(handle, slot, counted);
}

/// The original is the first branch; the others are copies, which take no credits: a switch keeps a
/// packet in its buffer until all branches have left, this one until the first has.
template <typename Policy>
void Walker<Policy>::replicate(LinkRecord& link, Handle handle, Slot& slot, PortMask ports) {
  if (ports.is_empty()) return discard(handle, slot, link.counters.multicast_unwanted);
  const Where original(slot.where.load(std::memory_order_relaxed));
  const unsigned first = ports.take();
  InplaceVector<std::pair<Handle, unsigned>, 256> copies;
  while (!ports.is_empty()) {
    const unsigned port = ports.take();
    const Handle copy = copy_slot(slot);
    if (copy == 0) {
      ++link.counters.copy_errors;
      continue;
    }
    commit(image_.slot(copy), original.copy(port));
    Policy::at(CrashPoint::copy_made);
    copies.push({copy, port});
  }
  commit(slot, original.with_branch(first));
  Policy::at(CrashPoint::copies_made);
  branch_off(link, handle, slot, first);
  for (const auto& [copy, port] : copies) branch_off(link, copy, image_.slot(copy), port);
}

template <typename Policy>
void Walker<Policy>::branch_off(LinkRecord& link, Handle handle, Slot& slot, unsigned port) {
  const Exit exit = Routes(image_).through(image_.node(link.end), link.end_port, port, slot);
  if (exit.fault != RouteFault::none) return discard_unroutable(link, handle, slot, exit);
  chain(exit.link, handle, slot, exit.lane);
}

/// A copy of the packet in a slot of the fabric's own; 0: there is none.
template <typename Policy>
Handle Walker<Policy>::copy_slot(const Slot& original) {
  const Handle first = image_.first_copy_slot();
  const std::uint32_t count = image_.extent().slots - first;
  if (count == 0) return 0;
  std::atomic<std::uint32_t>& next = image_.header().next_copy;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Handle handle = first + next.fetch_add(1, std::memory_order_relaxed) % count;
    Slot& copy = image_.slot(handle);
    std::uint64_t free = 0;
    if (copy.where.load(std::memory_order_relaxed) != 0 ||
        !copy.where.compare_exchange_strong(free, Where::claimed(me_).word(),
                                            std::memory_order_acquire)) {
      continue;
    }
    Policy::at(CrashPoint::copy_claimed);
    copy.from = 0;
    copy.destination_qp = original.destination_qp;
    copy.at_node = original.at_node;
    copy.bytes = original.bytes;
    copy.blocks = original.blocks;
    copy.dlid = original.dlid;
    copy.p_key = original.p_key;
    copy.at_port = original.at_port;
    copy.service_level = original.service_level;
    copy.lane = original.lane;
    copy.arrives_at = original.arrives_at;
    std::memcpy(copy.packet.data(), original.packet.data(),
                std::min<std::size_t>(original.bytes, kPacketBytesMax));
    return handle;
  }
  return 0;
}

template <typename Policy>
void Walker<Policy>::discard(Handle handle, Slot& slot, std::uint64_t& counter) {
  ++counter;
  ++packets_;
  const LinkIndex left = slot.from;
  const unsigned left_lane = slot.lane % kLanes;
  const std::uint32_t blocks = slot.blocks;
  commit(slot, Where());
  Policy::at(CrashPoint::discarded);
  note_free_slot(handle);
  if (left != 0) free_credit(left, left_lane, blocks);
}

template <typename Policy>
void Walker<Policy>::chain(LinkIndex to, Handle handle, Slot& slot, unsigned lane) {
  slot.out_lane = static_cast<std::uint8_t>(lane);
  if constexpr (Policy::kIsVirtual) {
    return policy_.schedule(slot.arrives_at, to, handle);
  }
  for (Chain& chain : chains_) {
    if (chain.link != to) continue;
    slot.next = chain.newest;
    chain.newest = handle;
    return;
  }
  if (chains_.full()) flush();
  slot.next = 0;
  chains_.push({.link = to, .newest = handle, .oldest = handle});
}

template <typename Policy>
void Walker<Policy>::note_free_slot(Handle handle) {
  const std::uint32_t owner = image_.owner_of(handle);
  if (owner == image_.extent().ends) return;
  for (const std::uint32_t known : slot_owners_) {
    if (known == owner) return;
  }
  if (slot_owners_.full()) flush();
  slot_owners_.push(owner);
}

template <typename Policy>
void Walker<Policy>::free_credit(LinkIndex link, unsigned lane, std::uint32_t blocks) {
  for (Freed& freed : freed_) {
    if (freed.link != link || freed.lane != lane) continue;
    freed.blocks += blocks;
    return;
  }
  if (freed_.full()) flush();
  freed_.push({.link = link, .lane = lane, .blocks = blocks});
}

// After a death.

template <typename Policy>
template <typename Visit>
void Walker<Policy>::for_each_slot(Visit visit) {
  const auto visit_range = [&](Handle first, std::uint32_t count) {
    for (Handle handle = first; handle < first + count; ++handle) {
      Slot& slot = image_.slot(handle);
      const Where where(slot.where.load(std::memory_order_acquire));
      if (where.kind() != Where::kFree) visit(handle, slot, where);
    }
  };
  // To read a page that nobody has written would make it resident.
  for (std::uint32_t end = 0; end < image_.extent().ends; ++end) {
    if (image_.end(end).generation.load() != 0) {
      visit_range(image_.first_slot_of(end), kSlotsOfAnEnd);
    }
  }
  const Handle first_copy = image_.first_copy_slot();
  visit_range(first_copy, std::min(image_.extent().slots - first_copy,
                                   image_.header().next_copy.load(std::memory_order_relaxed)));
}

/// Makes queues and credits of the frozen nodes anew, and finishes what was being handed over.
template <typename Policy>
template <typename IsDead>
void Walker<Policy>::rebuild(const Frozen& frozen, IsDead is_dead) {
  clear_queues(frozen);
  std::vector<Item> items;
  Buffers inside;
  for_each_slot([&](Handle handle, Slot& slot, Where where) {
    LinkRecord& link = image_.link(where.link());
    const bool is_here = frozen.is_marked(link.end);
    switch (where.kind()) {
      case Where::kInBuffer: {
        if (!is_here) break;
        items.push_back({where, handle});
        inside[where.link()][where.lane()] += slot.blocks;
        std::uint32_t& sent = link.lanes[where.lane()].sent;
        sent += static_cast<std::uint32_t>(std::max(ahead(where.number(), sent), 0));
        break;
      }
      case Where::kCopy:
        if (is_here) items.push_back({where, handle});
        break;
      case Where::kInRing: {
        const bool is_frozen = where.link() < frozen.has_link.size() &&
                               frozen.has_link[where.link()] && image_.leads_to_end(where.link());
        Ring& ring = image_.ring(where.link());
        const std::uint32_t tail = ring.tail.load(std::memory_order_relaxed);
        if (is_frozen && ahead(where.number(), tail) == 0) {
          finish_hand_over(link, ring, where.lane(), handle, tail, slot.sent_after);
        }
        break;
      }
      case Where::kClaimed:
        if (is_dead(where.mover())) slot.where.store(0, std::memory_order_release);
        break;
      default:
        break;
    }
  });
  count_credits(frozen, inside);
  for (const LinkIndex index : frozen.links) {
    if (image_.comes_from_end(index)) skip_crossed(index);
  }
  requeue(items);
  Policy::at(CrashPoint::rebuilt);
}

template <typename Policy>
void Walker<Policy>::clear_queues(const Frozen& frozen) {
  for (const LinkIndex index : frozen.links) {
    LinkRecord& link = image_.link(index);
    if (!frozen.is_marked(link.start)) continue;
    // All who could add packets are frozen, too; news are kept.
    link.gate.store(Gate(me_).with_news().word(), std::memory_order_release);
    link.waiting = link.stalled = 0;
    link.queue_since = {};
    link.head_since = {};
    for (LinkRecord::Lane& lane : link.lanes) lane.head = lane.tail = 0;
  }
}

template <typename Policy>
void Walker<Policy>::count_credits(const Frozen& frozen, const Buffers& inside) {
  for (const LinkIndex index : frozen.links) {
    LinkRecord& link = image_.link(index);
    if (!frozen.is_marked(link.end)) continue;
    const auto found = inside.find(index);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t blocks = found == inside.end() ? 0 : found->second[lane];
      link.freed[lane].store(link.lanes[lane].sent - blocks, std::memory_order_release);
    }
  }
}

/// In the order of the buffers. An original without a branch is replicated again: copies of it that
/// were made already are given up.
template <typename Policy>
void Walker<Policy>::requeue(std::vector<Item>& items) {
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    if (a.where.link() != b.where.link()) return a.where.link() < b.where.link();
    if (a.where.lane() != b.where.lane()) return a.where.lane() < b.where.lane();
    if (a.where.number() != b.where.number()) {
      return ahead(a.where.number(), b.where.number()) < 0;
    }
    // Originals before their copies.
    if (a.where.kind() != b.where.kind()) return a.where.kind() < b.where.kind();
    return a.handle < b.handle;
  });
  Where unbranched;
  for (const Item& item : items) {
    Slot& slot = image_.slot(item.handle);
    LinkRecord& link = image_.link(item.where.link());
    const bool is_copy = item.where.kind() == Where::kCopy;
    slot.from = is_copy ? 0 : item.where.link();
    slot.lane = static_cast<std::uint8_t>(item.where.lane());
    if (!is_copy && item.where.branch() == 0) {
      unbranched = item.where;
      route(item.where.link(), link, item.handle, slot);
    } else if (is_copy && item.where.original() == unbranched) {
      slot.where.store(0, std::memory_order_release);
    } else {
      branch_off(link, item.handle, slot, item.where.branch() - 1);
    }
  }
  flush();
}

/// What has left the ring of a program while its head did not say so yet.
template <typename Policy>
void Walker<Policy>::skip_crossed(LinkIndex index) {
  Ring& ring = image_.ring(index);
  const std::uint32_t tail = ring.tail.load(std::memory_order_acquire);
  std::uint32_t head = ring.head.load(std::memory_order_relaxed);
  while (head != tail && Ring::are_ends(head, tail) &&
         image_.slot(ring.handles[head % kRingEntries].load(std::memory_order_relaxed))
                 .where.load(std::memory_order_acquire) != Where::built(index, head).word()) {
    ring.head.store(++head, std::memory_order_release);
  }
}

}  // namespace verbatim::fabric
