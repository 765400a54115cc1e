#include "sim/interleavings.h"

#include <array>

#include <gtest/gtest.h>

/// The direct path's guarantees in shared memory, checked in every order of the accesses that they
/// depend on. The steps follow the code; if it changes, they must change, too.
namespace verbatim::sim {
namespace {

constexpr std::uint8_t kNobody = 0xff;

/// `TargetLock` and `RegionTable::close`: two peers look up a region under the target's lock, and
/// the owner deregisters it and returns its memory. Each peer may be killed at any step.
struct Visiting {
  std::uint8_t lock = kNobody;  // The target's: its holder.
  std::uint8_t visits = 0;      // Number of unlocks.
  std::uint8_t key = 1;
  std::uint8_t is_memory_there = 1;
  std::array<std::uint8_t, 2> at{};    // Step of each peer.
  std::array<std::uint8_t, 2> dead{};  // Killed.
  std::uint8_t owner_at = 0;
  std::uint8_t visits_seen = 0;
  std::uint8_t touched_freed = 0;
  std::uint8_t touched = 0;
};

/// A waiter finds that the lock's owner is dead, and opens the lock.
bool is_dead(const Visiting& state) { return state.lock != kNobody && state.dead[state.lock] != 0; }

Step visitor(Visiting& state, std::uint8_t self) {
  std::uint8_t& at = state.at[self];
  switch (at) {
    case 0:
      if (is_dead(state)) state.lock = kNobody;
      if (state.lock != kNobody) return Step::waits;
      state.lock = self;
      break;
    case 1:
      if (state.key == 0) at = 3;
      break;
    case 2:  // And 3: accesses the first and the last byte, unless the key is cleared.
      state.touched_freed |= state.is_memory_there == 0;
      state.touched = 1;
      break;
    case 3:
      state.touched_freed |= state.is_memory_there == 0;
      break;
    case 4:
      ++state.visits;
      break;
    case 5:
      state.lock = kNobody;
      break;
    default:
      return Step::ended;
  }
  ++at;
  return Step::taken;
}

Step owner(Visiting& state, bool waits) {
  switch (state.owner_at) {
    case 0:
      state.key = 0;
      if (!waits) state.owner_at = 3;
      break;
    case 1:
      state.visits_seen = state.visits;
      break;
    case 2:
      if (is_dead(state)) state.lock = kNobody;
      if (state.lock != kNobody && state.visits == state.visits_seen) return Step::waits;
      break;
    case 3:
    case 4:
      state.is_memory_there = 0;
      state.owner_at = 4;
      break;
    default:
      return Step::ended;
  }
  ++state.owner_at;
  return Step::taken;
}

/// Threads: two peers, the owner, and one that kills each peer.
Step visiting_step(Visiting& state, int thread, bool waits) {
  if (thread == 2) return owner(state, waits);
  const auto who = static_cast<std::size_t>(thread % 3);
  if (thread >= 3) {
    if (state.dead[who] != 0 || state.at[who] > 5) return Step::ended;
    state.dead[who] = 1;
    return Step::taken;
  }
  return state.dead[who] != 0 ? Step::ended : visitor(state, static_cast<std::uint8_t>(who));
}

TEST(Interleavings, NobodyTouchesARegionThatWasGivenBack) {
  bool was_touched = false;
  Interleavings<Visiting> all(
      5, [](Visiting& state, int thread) { return visiting_step(state, thread, true); },
      [&](const Visiting& state) {
        EXPECT_EQ(state.touched_freed, 0);
        EXPECT_EQ(state.is_memory_there, 0) << "the owner waits for ever";
        was_touched |= state.touched != 0;
      });
  EXPECT_GT(all.explore({}), 100U);
  EXPECT_TRUE(was_touched);
}

TEST(Interleavings, AnOwnerThatDoesNotWaitIsFoundOut) {
  bool touched_freed = false;
  Interleavings<Visiting> all(
      5, [](Visiting& state, int thread) { return visiting_step(state, thread, false); },
      [&](const Visiting& state) { touched_freed |= state.touched_freed != 0; });
  all.explore({});
  EXPECT_TRUE(touched_freed);
}

/// `CompletionRing` with two slots: two producers, the first of which may be killed at any step,
/// and a consumer. Entries are the producers' numbers from 1.
struct Ring {
  std::uint8_t lock = kNobody;
  std::uint8_t produced = 0;
  std::uint8_t finished = 0;  // Entries that have their generation.
  std::uint8_t consumed = 0;
  std::array<std::uint8_t, 2> entry{};
  std::array<std::uint8_t, 2> lap{};
  std::array<std::uint8_t, 2> at{};
  std::uint8_t dead = 0;
  std::uint8_t counted = 0;           // Bits of the producers whose entry is counted.
  std::array<std::uint8_t, 4> got{};  // The entries that the consumer took, in order.
};

std::uint8_t lap_of(std::uint8_t number) { return static_cast<std::uint8_t>(number / 2 + 1); }

bool take_lock(Ring& ring, std::uint8_t self) {
  if (ring.lock == 0 && ring.dead != 0) ring.lock = kNobody;
  if (ring.lock != kNobody) return false;
  ring.lock = self;
  return true;
}

void finish_last(Ring& ring) {
  if (ring.finished == ring.produced) return;
  const auto last = static_cast<std::uint8_t>(ring.produced - 1);
  ring.lap[last % 2] = lap_of(last);
  ring.finished = ring.produced;
}

Step producer(Ring& ring, std::uint8_t self, bool mends) {
  std::uint8_t& at = ring.at[self];
  const std::size_t place = ring.produced % 2;
  const auto last = static_cast<std::uint8_t>(ring.produced - 1);
  switch (at) {
    case 0:
      if (!take_lock(ring, self)) return Step::waits;
      break;
    case 1:
      if (mends) finish_last(ring);
      break;
    case 2:
      ring.entry[place] = static_cast<std::uint8_t>(self + 1);
      break;
    case 3:
      ++ring.produced;
      ring.counted = static_cast<std::uint8_t>(ring.counted | 1U << self);
      break;
    case 4:
      ring.lap[last % 2] = lap_of(last);
      break;
    case 5:
      ring.finished = ring.produced;
      break;
    case 6:
      ring.lock = kNobody;
      break;
    default:
      return Step::ended;
  }
  ++at;
  return Step::taken;
}

/// Takes the available entries; if there seems to be none, it may recover the ring.
Step consumer(Ring& ring, bool mends) {
  const std::size_t place = ring.consumed % 2;
  if (ring.lap[place] == lap_of(ring.consumed)) {
    ring.got[ring.consumed] = ring.entry[place];
    ++ring.consumed;
    return Step::taken;
  }
  if (!mends || ring.produced == ring.consumed || ring.finished == ring.produced) {
    return Step::waits;
  }
  if (!take_lock(ring, 2)) return Step::waits;
  finish_last(ring);  // Under the lock: a single step for the others.
  ring.lock = kNobody;
  return Step::taken;
}

Step ring_step(Ring& ring, int thread, bool mends) {
  switch (thread) {
    case 0:
      return ring.dead != 0 ? Step::ended : producer(ring, 0, mends);
    case 1:
      return producer(ring, 1, mends);
    case 2:
      return consumer(ring, mends);
    default:
      if (ring.dead != 0 || ring.at[0] > 6) return Step::ended;
      ring.dead = 1;
      return Step::taken;
  }
}

/// Returns true if the consumer has taken each counted entry once, and nothing else.
bool got_what_counts(const Ring& ring) {
  std::uint8_t bits = 0;
  for (std::size_t i = 0; i < ring.consumed; ++i) {
    const auto bit = static_cast<std::uint8_t>(1U << (ring.got[i] - 1));
    if ((bits & bit) != 0) return false;
    bits = static_cast<std::uint8_t>(bits | bit);
  }
  return bits == ring.counted;
}

TEST(Interleavings, EachCompletionThatCountsIsTakenOnce) {
  Interleavings<Ring> all(
      4, [](Ring& ring, int thread) { return ring_step(ring, thread, true); },
      [](const Ring& ring) {
        EXPECT_TRUE(got_what_counts(ring))
            << "produced " << int{ring.produced} << " consumed " << int{ring.consumed};
      });
  EXPECT_GT(all.explore({}), 100U);
}

TEST(Interleavings, WithoutMendingAKilledProducersEntryIsFoundMissing) {
  bool missed = false;
  Interleavings<Ring> all(
      4, [](Ring& ring, int thread) { return ring_step(ring, thread, false); },
      [&](const Ring& ring) { missed |= !got_what_counts(ring); });
  all.explore({});
  EXPECT_TRUE(missed);
}

}  // namespace
}  // namespace verbatim::sim
