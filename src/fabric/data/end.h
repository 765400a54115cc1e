#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/processor.h"
#include "base/types.h"
#include "fabric/data/image/image.h"
#include "fabric/data/walk/walker.h"

/// A program's end of the fabric: where it posts packets and takes them out.
namespace verbatim::fabric {

/// Slots, and blocks of credit, for packets to be posted.
struct Room {
  std::uint32_t packets = 0;
  std::uint32_t blocks = 0;
};

/// A packet to be posted: LRH to ICRC, in pieces, and what its headers say. No pieces: it is in
/// `End::next_packet` already.
struct OutgoingPacket {
  std::span<const ByteSpan> pieces;
  Lid dlid{};
  PKey p_key = kDefaultPKey;
  std::uint8_t service_level = 0;
  std::uint8_t lane = 0;  // As reserved.
  Qpn destination;
  NodeIndex as_node = 0;  // The daemon: the node that sends it.
};

struct IncomingPacket {
  MutableByteSpan bytes;  // LRH to ICRC; valid until the sink returns.
  std::uint8_t lane = 0;
  NodeIndex at_node = 0;  // The daemon: where it was received, and through which port.
  std::uint8_t at_port = 0;
};

/// Two threads may use an end at a time: one that posts, one that receives. The caller sees to it.
/// Each uses the walker of its own thread.
class End {
 public:
  /// `end` is taken: its rings and slots are this process's.
  End(const Image& image, std::uint32_t end);
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  std::uint32_t index() const { return end_; }
  /// The virtual lane of a service level on the link to the host, as on the host's cable; kNoLane:
  /// there is none.
  unsigned lane_of(unsigned service_level) const;

  /// Takes all of the room, or none. If it refuses one packet, `take_credit_news` will be true when
  /// there may be room, and the doorbell rings.
  bool reserve(unsigned lane, const Room& room);
  bool reserve(unsigned lane, std::uint32_t bytes) { return reserve(lane, {1, blocks_of(bytes)}); }
  /// Gives room back. A packet that is posted takes that of its size.
  void release(unsigned lane, const Room& room);
  void release(unsigned lane, std::uint32_t bytes) { release(lane, {1, blocks_of(bytes)}); }
  /// The same; tells threads of this program that were refused.
  template <typename Policy>
  void release(Walker<Policy>& walker, unsigned lane, const Room& room) {
    release(lane, room);
    const auto take = [](std::atomic<std::uint32_t>& waits) {
      return waits.load(std::memory_order_relaxed) != 0 && waits.exchange(0) != 0;
    };
    const bool awaits_credits = take(out_.waits);
    const bool awaits_slots = take(image_.end(end_).waits_for_slots);
    if (awaits_credits || awaits_slots) walker.tell_of_room(end_);
  }
  /// Where a packet of so many bytes lies in the reserved slot that the next `post` takes.
  MutableByteSpan next_packet(std::size_t bytes) const;
  /// Copies the packet into a reserved slot. It leaves with `push`, in the order of posting.
  void post(const OutgoingPacket& packet);
  /// Posts `next_packet(bytes)`, to which the headers belong.
  void post(const OutgoingPacket& headers, std::size_t bytes);
  template <typename Policy>
  void push(Walker<Policy>& walker) {
    if (posted_index_ == out_ring_.tail(std::memory_order_relaxed)) return;
    out_ring_.set_tail(posted_index_, posted_);
    walker.start(image_.from_end(end_));
    use_first_slots_again();
    prefetch_next_slots();
  }

  /// Blocks that have been posted on the lane, ever, reserved ones included.
  std::uint32_t posted_blocks(unsigned lane) const { return reserved_blocks_[lane % kLanes]; }

  bool has_packets() const {
    return in_ring_.tail(std::memory_order_acquire) !=
           in_ring_.head.load(std::memory_order_relaxed);
  }
  /// False: `receive` would do nothing.
  bool has_work(TimeNs now) const {
    return has_packets() || now >= image_.header().earliest.load(std::memory_order_relaxed);
  }
  /// Who gives the credits of a packet that was received back: this end, or the other side of a
  /// trunk (`Walker::freed_elsewhere`).
  enum class Credits : std::uint8_t { own, of_peer };
  /// Calls `sink(IncomingPacket)` for packets that have come, at most `packets_max`. Returns how
  /// many. If there is none, serves links whose time has come.
  template <Credits credits = Credits::own, typename Policy, typename Sink>
  std::size_t receive(Walker<Policy>& walker, TimeNs now, Sink sink, std::size_t packets_max = 64);
  /// True once after credits or slots have come for which a `reserve` has failed.
  bool take_credit_news() {
    std::atomic<std::uint32_t>& news = image_.end(end_).has_credit_news;
    return news.load(std::memory_order_relaxed) != 0 && news.exchange(0) != 0;
  }

  /// Before its thread sleeps: from now on a mover that has something rings the doorbell, once.
  /// False: there is something already, and it does not sleep. `wants_packets`: packets that have
  /// come are something, too.
  bool begin_sleep(bool wants_packets = true);
  /// The thread sleeps, and leaves timed links to a keeper that looks too late for them.
  bool awaits_keeper() const {
    const Header& header = image_.header();
    const TimeNs earliest = header.earliest.load(std::memory_order_seq_cst);
    return earliest != kNever &&
           earliest + kKeeperPatience < header.keeper_due.load(std::memory_order_seq_cst);
  }
  void end_sleep() { image_.end(end_).sleeps.store(0, std::memory_order_relaxed); }

  /// VCRC included.
  static std::uint32_t blocks_of(std::uint32_t bytes) {
    return (bytes + 2 + kBlockBytes - 1) / kBlockBytes;
  }

 private:
  static constexpr std::uint32_t kSlotsToTry = 16;
  static constexpr std::uint32_t kSlotsOfAWindow = 48;
  bool has_credit(unsigned lane, std::uint32_t blocks) const {
    const std::uint32_t limit =
        out_.freed[lane % kLanes].load(std::memory_order_seq_cst) + image_.capacity(lane % kLanes);
    return static_cast<std::int32_t>(limit - (reserved_blocks_[lane % kLanes] + blocks)) >= 0;
  }
  bool wait_for_credit(unsigned lane, std::uint32_t blocks);
  Handle wait_for_slot();
  Handle take_reserved() {
    const Handle slot = reserved_[--reserved_count_];
    is_reserved_[slot - first_slot_] = false;
    return slot;
  }
  /// A short window of slots stays in the processor's cache.
  void use_first_slots_again() {
    if (next_slot_ < kSlotsOfAWindow || is_reserved_[0]) return;
    if (image_.slot(first_slot_).where.load(std::memory_order_relaxed) == 0) next_slot_ = 0;
  }
  /// Receivers have read what was last in these slots: so their lines come back while nobody waits.
  void prefetch_next_slots() const {
    constexpr std::uint32_t kOfAMessage = 2;  // It and an acknowledgement.
    for (std::uint32_t i = 0; i < kOfAMessage; ++i) {
      const Slot& slot = image_.slot(first_slot_ + (next_slot_ + i) % kSlotsOfAnEnd);
      prefetch_to_write(&slot);
      prefetch_to_write(slot.room.data());
    }
  }
  /// A free one among the next ones; 0: there is none.
  Handle find_slot(std::uint32_t tries);

  const Image& image_;
  const std::uint32_t end_;
  const Handle first_slot_;
  LinkRecord& out_;
  Ring& out_ring_;
  Ring& in_ring_;
  std::uint32_t posted_index_;  // In the ring: what follows the last packet posted,
  Handle posted_ = 0;           // and that one.
  std::array<std::uint32_t, kLanes> reserved_blocks_;  // Ever: FCTBS if all were sent.
  std::uint32_t next_slot_ = 0;
  std::uint32_t reserved_count_ = 0;
  std::array<Handle, kSlotsOfAnEnd> reserved_{};
  std::bitset<kSlotsOfAnEnd> is_reserved_;
};

template <End::Credits credits, typename Policy, typename Sink>
std::size_t End::receive(Walker<Policy>& walker, TimeNs now, Sink sink, std::size_t packets_max) {
  const LinkIndex link = image_.to_end(end_);
  const std::uint64_t last = in_ring_.last.load(std::memory_order_acquire);
  const std::uint32_t tail = Ring::tail_of(last);
  std::uint32_t head = in_ring_.head.load(std::memory_order_relaxed);
  std::size_t count = 0;
  if (!Ring::are_ends(head, tail)) return 0;
  while (head != tail && count < packets_max) {
    const Handle handle =
        head + 1 == tail ? Ring::handle_of(last)
                         : in_ring_.handles[head % kRingEntries].load(std::memory_order_relaxed);
    Slot& slot = image_.slot(handle);
    __builtin_prefetch(slot.room.data());
    const Where where(slot.where.load(std::memory_order_acquire));
    const bool is_there = where == Where::in_ring(link, where.lane(), head);
    if (is_there && slot.arrives_at > now &&
        !is_of_another_clock(slot.arrives_at, now, kJourneyMax)) {
      break;
    }
    const std::uint32_t blocks = slot.blocks;
    if (is_there) {
      sink(IncomingPacket{.bytes = slot.packet(),
                          .lane = static_cast<std::uint8_t>(where.lane()),
                          .at_node = slot.at_node,
                          .at_port = slot.at_port});
      slot.where.store(0, std::memory_order_release);  // Then the head (crossing.h).
      ++count;
    }
    in_ring_.head.store(++head, std::memory_order_release);
    if (is_there) {
      walker.consumed(link, handle, where.lane(), credits == Credits::own ? blocks : 0);
    }
  }
  if (count != 0) {
    walker.tell_of_credits();
  } else {
    walker.run_due(now);
  }
  return count;
}

}  // namespace verbatim::fabric
