#include "arena/target.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arena/completion_ring.h"
#include "base/log.h"
#include "base/time.h"

namespace verbatim::arena {
namespace {

/// A request holds the lock for a tenth of a millisecond at most, while its process runs.
constexpr TimeNs kMoment = 20 * kMillisecond;
/// Enough for the lock to find out several times whether its holder is dead.
constexpr unsigned kSpinsMin = 1024;

/// Without it (some kernels of real-time systems) no target is given up.
bool can_order_all_processors() {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands >= 0 && (commands & MEMBARRIER_CMD_GLOBAL) != 0) return true;
  static std::atomic_flag is_told;
  if (!is_told.test_and_set()) {
    log(LogLevel::warn,
        "this kernel has no membarrier(MEMBARRIER_CMD_GLOBAL): a peer that is stopped (SIGSTOP) "
        "amid a request holds up RESET and ibv_destroy_qp until it goes on");
  }
  return false;
}

/// As in Dekker's algorithm: either the holder sees `given_up` before its next step, or this
/// process sees that it is in one. The barrier of all processors spares the holder one of its own.
bool give_up(DirectTarget& target) {
  if (!can_order_all_processors()) return false;
  target.given_up.store(true, std::memory_order_seq_cst);
  const bool is_ordered = syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) == 0;
  if (is_ordered && !target.in_step.load(std::memory_order_acquire)) return true;
  target.given_up.store(false, std::memory_order_seq_cst);
  return false;
}

}  // namespace

bool DirectTarget::serves_limited_member(Qpn number, const PeerName& name) const {
  return peer_qpn == number && is_full_member(pkey) && peer_name == as_full_member(name);
}

bool wait_for_target_unlock(DirectTarget& target, TimeNs deadline) {
  constexpr unsigned kSpinsPerLook = 64;
  const std::uint32_t unlocks = target.unlocks.load(std::memory_order_seq_cst);
  for (unsigned spins = 1;
       target.is_locked() && target.unlocks.load(std::memory_order_seq_cst) == unlocks; ++spins) {
    if (deadline != kNever && spins % kSpinsPerLook == 0 && monotonic_now() >= deadline) {
      return false;
    }
    target.lock.wait(spins);
  }
  return true;
}

bool lock_after_waiting(DirectTarget& target) {
  const TimeNs end = monotonic_now() + kMoment;
  for (unsigned spins = 1; !target.lock.try_lock(); ++spins) {
    target.lock.wait(spins);
    if (spins >= kSpinsMin && monotonic_now() >= end) return false;
  }
  return true;
}

bool lock_or_give_up(DirectTarget& target) {
  while (!lock_soon(target)) {
    if (give_up(target)) return false;
  }
  return true;
}

bool take_back(DirectTarget& target) {
  if (!target.given_up.load(std::memory_order_relaxed)) return true;
  if (!lock_soon(target)) return false;
  const TargetLock target_lock(target, std::adopt_lock);
  target.stop_serving();
  target.receives = {};
  target.receive_cq = {};
  target.in_step.store(false, std::memory_order_relaxed);
  target.given_up.store(false, std::memory_order_seq_cst);
  return true;
}

void recover_target(DirectTarget& target, std::byte* arena) {
  const auto finish = [arena]<typename Ring>(Offset<Ring> ring) {
    if (ring) reinterpret_cast<Ring*>(arena + ring.value)->finish(arena);
  };
  finish(target.receives);    // Sets `holds_receive` if the last take was cut off.
  finish(target.receive_cq);  // Clears it if the last completion was cut off.
}

}  // namespace verbatim::arena
