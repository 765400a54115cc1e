#pragma once

#include <algorithm>

#include "fabric/data/walk/crossing.h"
#include "fabric/data/walk/forward.h"
#include "fabric/data/walk/gates.h"
#include "fabric/data/walk/rebuild.h"
#include "fabric/data/walk/serve.h"

/// What survivors do about movers that have died. No packet that one had still to visit is lost: it
/// owned the gates of all that. But it may owe the living a word of what it had done.
namespace verbatim::fabric {

template <typename Policy>
template <typename IsDead>
std::uint32_t Walker<Policy>::repair(IsDead is_dead) {
  now_ = 0;
  packets_ = 0;
  lock_repair(is_dead);
  const Frozen frozen = freeze(is_dead);
  if (frozen.gates_of_dead != 0) {
    rebuild(frozen, is_dead);
    for (const LinkIndex index : frozen.links) {
      packets_ = 0;
      work({.link = index});
      visit();
    }
  }
  pay_debts();
  image_.header().repairer.store(0, std::memory_order_release);
  return frozen.gates_of_dead;
}

/// One repairs at a time. Who dies of it is one of the dead.
template <typename Policy>
template <typename IsDead>
void Walker<Policy>::lock_repair(IsDead is_dead) {
  std::atomic<std::uint32_t>& repairer = image_.header().repairer;
  for (;;) {
    std::uint32_t holder = 0;
    if (repairer.compare_exchange_strong(holder, me_, std::memory_order_acq_rel)) return;
    if (is_dead(holder)) {
      repairer.compare_exchange_strong(holder, 0, std::memory_order_acq_rel);
    } else {
      sched_yield();
    }
  }
}

template <typename Policy>
template <typename IsDead>
auto Walker<Policy>::freeze(IsDead is_dead) -> Frozen {
  const Extent& extent = image_.extent();
  Frozen frozen{.nodes = std::vector<bool>(extent.nodes),
                .has_link = std::vector<bool>(extent.links)};
  const auto mark = [&](NodeIndex node) {
    if (node < extent.nodes && image_.node(node).kind != RecordKind::end) frozen.nodes[node] = true;
  };
  // A node that is marked late freezes links that this has passed already.
  for (bool grows = true; grows;) {
    grows = false;
    for (LinkIndex i = 1; i < extent.links; ++i) {
      LinkRecord& link = image_.link(i);
      if (frozen.has_link[i] || link.start >= extent.nodes || link.end >= extent.nodes) continue;
      const std::uint32_t owner = Gate(link.gate.load(std::memory_order_acquire)).owner();
      if (!frozen.is_marked(link.start) && !frozen.is_marked(link.end) &&
          (owner == 0 || !is_dead(owner))) {
        continue;
      }
      const bool was_of_dead = take_from_dead(link, is_dead);
      frozen.has_link[i] = grows = true;
      frozen.links.push_back(i);
      Policy::at(CrashPoint::frozen);
      if (!was_of_dead) continue;
      ++frozen.gates_of_dead;
      mark(link.start);
      mark(link.end);
    }
  }
  return frozen;
}

/// Takes the gate from a dead owner, or when a living one, who never waits, has left it. True: the
/// owner was dead; it may have died while this waited.
template <typename Policy>
template <typename IsDead>
bool Walker<Policy>::take_from_dead(LinkRecord& link, IsDead is_dead) {
  std::uint64_t word = link.gate.load(std::memory_order_acquire);
  for (;;) {
    const Gate gate(word);
    const bool is_free = gate.owner() == 0;
    const bool was_of_dead = !is_free && is_dead(gate.owner());
    if (is_free || was_of_dead) {
      if (link.gate.compare_exchange_weak(word, gate.with_owner(me_).word(),
                                          std::memory_order_acq_rel, std::memory_order_acquire)) {
        return was_of_dead;
      }
      continue;
    }
    sched_yield();
    word = link.gate.load(std::memory_order_acquire);
  }
}

/// The dead may have found timers that were due, left links to the keeper, freed credits and slots,
/// or found a program asleep, and told nobody.
template <typename Policy>
void Walker<Policy>::pay_debts() {
  Policy::at(CrashPoint::debts_found);
  look_at_timers(0);
  run_due(now());
  image_.header().keeper_news.store(1, std::memory_order_seq_cst);
  serve_left_over();
  tell_all_programs();
}

/// Tells all programs that they may have something to receive, credits and slots. Rings also for
/// those that do not sleep: the dead may have been about to wake them. The daemon, which calls
/// this, is awake.
template <typename Policy>
void Walker<Policy>::tell_all_programs() {
  for (std::uint32_t index = 1; index < image_.extent().ends; ++index) {
    EndRecord& end = image_.end(index);
    if (end.state.load(std::memory_order_relaxed) != EndRecord::kTaken) continue;
    end.waits_for_slots.store(0, std::memory_order_seq_cst);
    end.has_credit_news.store(1, std::memory_order_seq_cst);
    end.sleeps.store(0, std::memory_order_seq_cst);
    policy_.wake(index);
  }
}

template <typename Policy>
template <typename IsDead, typename Work>
void Walker<Policy>::with_link(LinkIndex index, IsDead is_dead, Work change) {
  now_ = 0;
  packets_ = 0;
  if constexpr (Policy::kIsVirtual) {
    change();
    return policy_.schedule(0, index, 0);
  }
  LinkRecord& link = image_.link(index);
  std::uint64_t word = link.gate.load(std::memory_order_acquire);
  for (;;) {
    const Gate gate(word);
    if (gate.owner() == 0) {
      if (link.gate.compare_exchange_weak(word, gate.with_owner(me_).word(),
                                          std::memory_order_acq_rel, std::memory_order_acquire)) {
        break;
      }
      continue;
    }
    if (is_dead(gate.owner())) {
      repair(is_dead);
    } else {
      sched_yield();
    }
    word = link.gate.load(std::memory_order_acquire);
  }
  change();
  work({.link = index});
  visit();
}

}  // namespace verbatim::fabric
