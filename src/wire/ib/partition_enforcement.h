#pragma once

#include "wire/ib/bth.h"

/// What a switch's port that enforces partitions lets pass (IBA 18.2.4.3). Subnet managers copy the
/// P_Key table of the host at its cable into the port's.
namespace verbatim::wire {

/// The host may send: `entry`, or as a limited member of a partition that it is a full member of.
/// Limited members can send to full ones only if their own, limited key passes here.
constexpr bool may_enter(PKey entry, PKey sent) {
  constexpr std::uint16_t kMembership = 0x8000;
  const bool is_partition = (raw(entry) & ~kMembership) != 0;
  return is_partition && (entry == sent || raw(entry) == (raw(sent) | kMembership));
}

/// The host may receive.
constexpr bool may_leave(PKey entry, PKey sent) { return pkeys_match(entry, sent); }

}  // namespace verbatim::wire
