#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/data/image/used_slots.h"
#include "fabric/data/walk/crossing.h"

/// What a dead mover has left half done is made whole: from the words that say where packets are,
/// and the order in which a move stores (crossing.h), queues and credits are made anew.
namespace verbatim::fabric {

/// Makes queues and credits of the frozen nodes anew, and finishes what was being handed over.
template <typename Policy>
template <typename IsDead>
void Walker<Policy>::rebuild(const Frozen& frozen, IsDead is_dead) {
  clear_queues(frozen);
  std::vector<Item> items;
  Buffers inside;
  for_each_used_slot(image_, [&](Handle handle, Slot& slot, Where where) {
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
        const std::uint32_t tail = ring.tail(std::memory_order_relaxed);
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
    note_unblocked(link);
    clear_timer(link);
    link.queue_since = {};
    link.head_since = {};
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      end_wait(link.short_since[lane], link.counters.lane_wait_ns[lane]);
    }
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
      link.lanes[lane].freed_seen = link.lanes[lane].sent - blocks;
      link.freed[lane].store(link.lanes[lane].freed_seen, std::memory_order_release);
    }
  }
}

/// In the order of the buffers. An original without a branch is replicated again.
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
  give_up_copies(items);
  forget_exit();  // The packets are of different links.
  for (const Item& item : items) {
    Slot& slot = image_.slot(item.handle);
    LinkRecord& link = image_.link(item.where.link());
    const bool is_copy = item.where.kind() == Where::kCopy;
    slot.from = is_copy ? 0 : item.where.link();
    slot.lane = static_cast<std::uint8_t>(item.where.lane());
    if (!is_copy && item.where.branch() == 0) {
      route(item.where.link(), link, item.handle, slot);
    } else {
      branch_off(link, item.handle, slot, item.where.branch() - 1);
    }
  }
  flush();
}

/// Those of originals without a branch. All of them before the first original gets its branch: if
/// this dies in between, nobody takes them for valid ones.
template <typename Policy>
void Walker<Policy>::give_up_copies(std::vector<Item>& items) {
  Where unbranched;
  std::erase_if(items, [&](const Item& item) {
    if (item.where.kind() == Where::kInBuffer && item.where.branch() == 0) unbranched = item.where;
    if (item.where.kind() != Where::kCopy || item.where.original() != unbranched) return false;
    image_.slot(item.handle).where.store(0, std::memory_order_release);
    return true;
  });
  Policy::at(CrashPoint::copies_given_up);
}

/// What has left the ring of a program while its head did not say so yet.
template <typename Policy>
void Walker<Policy>::skip_crossed(LinkIndex index) {
  Ring& ring = image_.ring(index);
  const std::uint32_t tail = ring.tail(std::memory_order_acquire);
  std::uint32_t head = ring.head.load(std::memory_order_relaxed);
  while (head != tail && Ring::are_ends(head, tail) &&
         image_.slot(ring.handles[head % kRingEntries].load(std::memory_order_relaxed))
                 .where.load(std::memory_order_acquire) != Where::built(index, head).word()) {
    ring.head.store(++head, std::memory_order_release);
  }
}

}  // namespace verbatim::fabric
