#include "arena/target.h"

#include "arena/completion_ring.h"

namespace verbatim::arena {

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

void recover_target(DirectTarget& target, std::byte* arena) {
  const auto finish = [arena]<typename Ring>(Offset<Ring> ring) {
    if (ring) reinterpret_cast<Ring*>(arena + ring.value)->finish(arena);
  };
  finish(target.receives);    // Sets `holds_receive` if the last take was cut off.
  finish(target.receive_cq);  // Clears it if the last completion was cut off.
}

}  // namespace verbatim::arena
