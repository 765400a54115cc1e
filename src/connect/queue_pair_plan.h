#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "base/error.h"
#include "base/types.h"
#include "cm/messages.h"

namespace verbatim::connect {

/// What the two ends of a connection have agreed on for the queue pair of this one.
struct QueuePairPlan {
  cm::Path path;
  cm::QueuePairOffer peer;
  Psn own_psn;  // Told to the peer: its first packet has this one.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
};

/// The attributes with which a queue pair of `type` goes to `state` (INIT, RTR or RTS; EINVAL for
/// others), and their mask. `gid_index`: of the plan's local GID. Other attributes stay as they
/// are.
Result<int> attributes_for(const QueuePairPlan& plan, ibv_qp_type type, std::uint8_t gid_index,
                           ibv_qp_state state, ibv_qp_attr& attributes);

}  // namespace verbatim::connect
