#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/inplace_vector.h"
#include "base/time.h"
#include "fabric/data/image/clock.h"
#include "fabric/data/image/gate.h"
#include "fabric/data/image/image.h"
#include "fabric/data/walk/routes.h"

/// Who moves packets: any thread of any program of the fabric, for itself and for others.
namespace verbatim::fabric {

/// Places between two stores of a move. A policy of the crash test ends its process there.
enum class CrashPoint : std::uint8_t {
  gate_taken,
  inbox_taken,
  queued,
  unqueued,
  ring_place_noted,
  committed,
  sent_counted,
  handle_in_ring,
  handed_over,
  ring_head_moved,
  copy_claimed,
  copy_made,
  copies_made,
  hop_limit_noted,
  headers_rewritten,
  chain_pushed,
  discarded,
  credit_freed,
  waiter_told,
  sleeper_found,
  gate_left,
  timer_noted,
  timer_ended,
  timers_taken,
  frozen,
  copies_given_up,
  rebuilt,
  debts_found,
};

/// What a walker needs of its surroundings. This one is of programs that share memory.
class SharedPolicy {
 public:
  static constexpr bool kIsVirtual = false;
  static void at(CrashPoint) {}
  static TimeNs now() { return fabric_now(); }
  /// Rings the doorbell of the end's program, which sleeps.
  void wake(std::uint32_t end) const {
    if (ring_ != nullptr) ring_(context_, end);
  }
  /// Virtual time alone: the packet comes to the link's queue at that time; 0: look at the link.
  void schedule(TimeNs, LinkIndex, Handle) {}

  using Ring = void (*)(void* context, std::uint32_t end);
  void set_doorbells(Ring ring, void* context) {
    ring_ = ring;
    context_ = context;
  }

 private:
  Ring ring_ = nullptr;
  void* context_ = nullptr;
};

/// So much later than programs the keeper looks for timed links: as long as a program polls, it
/// serves them itself.
inline constexpr TimeNs kKeeperPatience = 500 * kMicrosecond;
/// And so much later after it has looked in vain, for it takes a processor from the programs each
/// time. A program that goes to sleep asks it to look earlier.
inline constexpr TimeNs kKeeperPatienceMax = 1 * kMillisecond;

/// One thread's. `me` is its index in the table of movers.
template <typename Policy>
class Walker {
 public:
  Walker(const Image& image, Policy& policy, std::uint32_t me)
      : image_(image), policy_(policy), me_(me) {}

  /// There is news on the link: a packet in its ring, credits, a time that has come. Moves what
  /// can move from there on, unless another thread is at it, which then does.
  void start(LinkIndex link);
  /// Virtual time: a packet, or news if 0, comes to the link.
  void arrive(LinkIndex link, Handle handle);
  /// A program has consumed a packet of its link `to_end`. To be followed by `tell_of_credits`.
  void consumed(LinkIndex to_end, Handle handle, unsigned lane, std::uint32_t blocks) {
    note_free_slot(handle);
    free_credit(to_end, lane, blocks);
  }
  /// The buffer beyond a trunk has given credits back. To be followed by `tell_of_credits`.
  void freed_elsewhere(LinkIndex to_end, unsigned lane, std::uint32_t blocks) {
    free_credit(to_end, lane, blocks);
  }
  /// Tells the links whose buffers have got room, and runs them.
  void tell_of_credits();
  /// Serves timed links that are due. One load if there are none.
  bool run_due(TimeNs now);
  /// The keeper: sees to links whose time was set by a program with another clock.
  void distrust_timers(TimeNs now) {
    const TimeNs earliest = image_.header().earliest.load(std::memory_order_seq_cst);
    if (earliest != kNever && is_of_another_clock(earliest, now, kWaitMax)) look_at_timers(now);
  }
  /// Serves links that a walk has left with news and without an owner.
  void serve_left_over();
  /// Repairs what dead movers have left half done. `is_dead(owner)` looks at the table of movers.
  /// Returns how many gates were theirs.
  template <typename IsDead>
  std::uint32_t repair(IsDead is_dead);
  /// Takes the gate of one link as its owner for `work`, which may change what the gate guards;
  /// then serves the link. Waits for a living owner; repairs after a dead one.
  template <typename IsDead, typename Work>
  void with_link(LinkIndex link, IsDead is_dead, Work work);
  void tell_all_programs();
  void tell_keeper();
  /// The program of the end has room again for which it was refused.
  void tell_of_room(std::uint32_t end);

 private:
  /// A link whose gate is ours, and what its inbox held when we took it.
  struct Owned {
    LinkIndex link = 0;
    Handle newest = 0;
  };
  struct Chain {
    LinkIndex link = 0;
    Handle newest = 0;
    Handle oldest = 0;
  };
  struct Freed {
    LinkIndex link = 0;
    std::uint32_t lane = 0;
    std::uint32_t blocks = 0;
  };
  /// Of the link that is served: where its last packet went on, and what the tables were asked.
  struct LastExit {
    Exit exit;  // No link: there is none.
    std::uint16_t bytes = 0;
    std::uint64_t headers = 0;
  };
  static constexpr std::size_t kOwnedMax = 64;
  static constexpr std::uint32_t kPacketsOfAVisit = 64;
  /// Then the walk leaves the rest to the fabric's daemon: it would else work for others for ever.
  static constexpr std::uint32_t kPacketsOfAWalk = 8192;
  /// A link with a backlog may be served so late and still reach its rate,
  static constexpr TimeNs kCatchUp = 10 * kMillisecond;
  /// and packets may leave so early, so that a fast link needs no timer for each packet.
  static constexpr TimeNs kEarly = Policy::kIsVirtual ? 0 : 10 * kMicrosecond;

  // gates.h: how links are owned.
  void push(LinkIndex index, Handle newest, Handle oldest);
  void visit();
  void work(Owned owned);
  bool leave(LinkRecord& link);
  void leave_over(LinkRecord& link);
  void take_inbox(LinkRecord& link, Handle newest);
  void enqueue(LinkRecord& link, unsigned lane, Handle first, Handle last);
  void flush();
  void give_keeper_news();
  void tell_program(LinkIndex link);
  void note_room(std::uint32_t end);
  void ring_bells();
  void tell_slot_owners();
  TimeNs now() { return now_ != 0 ? now_ : now_ = policy_.now(); }

  // serve.h: which packet is next.
  bool serve(LinkIndex index, LinkRecord& link);
  bool serve_ring(LinkIndex index, LinkRecord& link);
  bool has_credit(LinkIndex index, LinkRecord& link, unsigned lane, std::uint32_t blocks);
  bool has_ring_place(LinkIndex index);
  std::uint32_t ready_lanes(LinkIndex index, LinkRecord& link);
  bool may_leave(const LinkRecord& link);
  TimeNs free_at(const LinkRecord& link, std::uint64_t ps_per_byte);
  void begin(TimeNs& since);
  [[gnu::noinline]] void charge_clock(LinkRecord& link, std::uint64_t ps_per_byte,
                                      std::uint32_t bytes);
  [[gnu::noinline]] bool pass_cable(LinkIndex index, LinkRecord& link, Handle handle);
  void count_integrity(LinkRecord& link, bool is_damaged);
  bool discard_what_cannot_leave(LinkIndex index, LinkRecord& link);
  bool is_too_long_the_first(LinkIndex index, LinkRecord& link, unsigned lane, const Slot& slot);
  bool is_passed_over(LinkIndex index) const;
  bool leads_to_program(LinkIndex index, const LinkRecord& link) const;
  bool has_expired(const LinkRecord& link, unsigned lane, const Slot& slot);
  void note_blocked(LinkIndex index, LinkRecord& link, bool by_clock);
  void note_unblocked(LinkRecord& link);
  void end_wait(TimeNs& since, TimeNs& wait_ns);
  Handle unqueue(LinkRecord& link, unsigned lane);
  void leave_stall(LinkRecord& link, unsigned lane);

  // timers.h: links that are served at a time.
  void set_timer(LinkIndex index, LinkRecord& link, TimeNs at);
  void clear_timer(LinkRecord& link);
  void look_at_timers(TimeNs at);

  // crossing.h: how a packet moves.
  void cross(LinkIndex index, LinkRecord& link, unsigned lane, Handle handle);
  void hand_over(LinkIndex index, LinkRecord& link, unsigned lane, Handle handle);
  void finish_hand_over(LinkRecord& link, Ring& ring, unsigned lane, Handle handle,
                        std::uint32_t index, std::uint32_t sent_after);
  void route(LinkIndex index, LinkRecord& link, Handle handle, Slot& slot);
  Exit exit_of(const NodeRecord& node, const LinkRecord& link, const Slot& slot);
  void forget_exit() {
    more_follow_ = false;
    last_exit_.exit.link = 0;
  }
  void replicate(LinkRecord& link, Handle handle, Slot& slot, PortMask ports);
  void branch_off(LinkRecord& link, Handle handle, Slot& slot, unsigned port);
  void discard_unroutable(LinkRecord& in, Handle handle, Slot& slot, const Exit& exit);
  Handle copy_slot(Slot& original);
  void discard(Handle handle, Slot& slot, std::uint64_t& counter);
  void forward(LinkRecord& link, Handle handle, Slot& slot);  // Of a router: forward.h.
  void chain(LinkIndex to, Handle handle, Slot& slot, unsigned lane);
  void free_credit(LinkIndex link, unsigned lane, std::uint32_t blocks);
  void note_free_slot(Handle handle);

  // rebuild.h: what a dead mover has left half done.

  /// What a repair has taken: the gates of all links from and to the nodes at both ends of each
  /// link whose owner is dead.
  struct Frozen {
    std::vector<bool> nodes;
    std::vector<bool> has_link;
    std::vector<LinkIndex> links{};
    std::uint32_t gates_of_dead = 0;
    bool is_marked(NodeIndex node) const { return node < nodes.size() && nodes[node]; }
  };
  using Buffers = std::unordered_map<LinkIndex, std::array<std::uint32_t, kLanes>>;
  struct Item {
    Where where;
    Handle handle = 0;
  };
  /// Calls visit(handle, slot, where) for all slots that have ever been used.
  template <typename IsDead>
  void rebuild(const Frozen& frozen, IsDead is_dead);
  void clear_queues(const Frozen& frozen);
  void count_credits(const Frozen& frozen, const Buffers& inside);
  void requeue(std::vector<Item>& items);
  void give_up_copies(std::vector<Item>& items);
  void skip_crossed(LinkIndex index);

  // repair.h: gates of the dead, and what they had still to tell.
  template <typename IsDead>
  Frozen freeze(IsDead is_dead);
  template <typename IsDead>
  bool take_from_dead(LinkRecord& link, IsDead is_dead);
  template <typename IsDead>
  void lock_repair(IsDead is_dead);
  void pay_debts();

  const Image& image_;
  Policy& policy_;
  const std::uint32_t me_;
  TimeNs now_ = 0;  // Read once a walk, by the first who asks.
  std::uint32_t packets_ = 0;
  // Of one call of `serve`:
  bool more_follow_ = false;  // Packets, after the one that crosses.
  LastExit last_exit_;
  InplaceVector<Owned, kOwnedMax> owned_;
  InplaceVector<Chain, 16> chains_;
  InplaceVector<Freed, 8> freed_;
  InplaceVector<std::uint32_t, 8> slot_owners_;
  InplaceVector<std::uint32_t, 16> bells_;  // Ends.
};

}  // namespace verbatim::fabric
