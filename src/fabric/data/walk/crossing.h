#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "fabric/data/walk/walker.h"

/// How a packet moves. What is computed after a death (rebuild.h) relies on the order of stores:
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

inline void count(LinkRecord& link, unsigned lane, const Slot& slot) {
  const std::uint32_t words = slot.bytes / 4;
  ++link.lanes[lane].packets;
  link.lanes[lane].words += words;
  link.counters.level_words[slot.service_level % 16] += words;
  if (Routes::is_multicast(slot.dlid)) [[unlikely]]
    ++link.counters.multicast_packets;
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
  count(link, lane, slot);
  const std::uint64_t ps_per_byte = link.ps_per_byte.load(std::memory_order_relaxed);
  if (ps_per_byte != 0) charge_clock(link, ps_per_byte, slot.bytes);
  const bool is_plain = link.cable.load(std::memory_order_relaxed).is_plain();
  if (Policy::kIsVirtual || !is_plain) [[unlikely]] {
    if (!pass_cable(index, link, handle)) return;
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
  const std::uint32_t tail = ring.tail(std::memory_order_relaxed);
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
  ring.set_tail(index + 1, handle);
  Policy::at(CrashPoint::handed_over);
}

/// The packet stands in the buffer at the end of the link: finds its next link, and queues it there
/// by way of a chain.
template <typename Policy>
void Walker<Policy>::route(LinkIndex index, LinkRecord& link, Handle handle, Slot& slot) {
  const NodeRecord& node = image_.node(link.end);
  const Routes routes(image_);
  if (node.kind >= RecordKind::hub) {
    if (node.kind == RecordKind::router) return forward(link, handle, slot);
    if (!image_.comes_from_end(index)) slot.at_node = link.start;
  } else {
    slot.at_port = link.end_port;
    if (Routes::is_multicast(slot.dlid)) {
      return replicate(link, handle, slot, routes.branches_of(node, link.end_port, slot.dlid));
    }
  }
  const Exit exit = exit_of(node, link, slot);
  if (exit.fault != RouteFault::none) return discard_unroutable(link, handle, slot, exit);
  chain(exit.link, handle, slot, exit.lane);
}

/// Most packets go the way of the one before. Those of the hub are for different nodes.
template <typename Policy>
[[gnu::always_inline]] inline Exit Walker<Policy>::exit_of(const NodeRecord& node,
                                                           const LinkRecord& link,
                                                           const Slot& slot) {
  const bool is_alone = !more_follow_ && last_exit_.exit.link == 0;
  const std::uint64_t headers = is_alone ? 0 : Routes::headers_of(slot);
  if (last_exit_.exit.link != 0 && last_exit_.headers == headers &&
      slot.bytes <= last_exit_.bytes) {
    return last_exit_.exit;
  }
  const Exit exit = Routes(image_).exit_of(node, link.end_port, slot);
  if (!is_alone && exit.fault == RouteFault::none && node.kind != RecordKind::hub) {
    last_exit_ = {.exit = exit, .bytes = slot.bytes, .headers = headers};
  }
  return exit;
}

/// Counted by the port where the packet came in; by the output port if it is larger than that one's
/// MTU, of a partition that the port does not let out, or at the end of its hops. A host's port
/// that is not active counts what it does not turn round.
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
  std::uint64_t& counter = exit.fault == RouteFault::mtu         ? of_output.mtu_discards
                           : exit.fault == RouteFault::hop_limit ? of_output.lifetime_discards
                           : exit.fault == RouteFault::inactive  ? of_output.inactive_discards
                                                                 : of_output.p_key_errors;
  std::atomic_ref(counter).fetch_add(1, std::memory_order_relaxed);
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
Handle Walker<Policy>::copy_slot(Slot& original) {
  const Handle first = image_.first_copy_slot();
  const std::uint32_t count = image_.extent().slots - first;
  if (count == 0) return 0;
  const ByteSpan packet = original.packet();
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
    copy.bytes = static_cast<std::uint16_t>(packet.size());
    copy.blocks = original.blocks;
    copy.dlid = original.dlid;
    copy.p_key = original.p_key;
    copy.at_port = original.at_port;
    copy.service_level = original.service_level;
    copy.lane = original.lane;
    copy.arrives_at = original.arrives_at;
    std::memcpy(copy.packet(packet.size()).data(), packet.data(), packet.size());
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
[[gnu::always_inline]] inline void Walker<Policy>::free_credit(LinkIndex link, unsigned lane,
                                                               std::uint32_t blocks) {
  for (Freed& freed : freed_) {
    if (freed.link != link || freed.lane != lane) continue;
    freed.blocks += blocks;
    return;
  }
  if (freed_.full()) flush();
  freed_.push({.link = link, .lane = lane, .blocks = blocks});
}

}  // namespace verbatim::fabric
