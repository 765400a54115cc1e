#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "base/error.h"
#include "base/types.h"
#include "cm/messages.h"
#include "wire/ib/pkey_table.h"

namespace verbatim::connect {

using wire::partition_entry;

/// The Q_Key of rdma_cm's datagrams: RDMA_UDP_QKEY of rdma/rdma_cma.h, which must not be included
/// before dropin/rdmacm/rdmacm.h makes its calls visible.
inline constexpr QKey kRdmaCmQKey{0x01234567};

/// The negotiated parameters of a connection that this side's queue pair needs.
struct QueuePairPlan {
  cm::Path path;
  cm::QueuePairOffer peer;
  Psn own_psn;  // Announced to the peer: its first packet has this PSN.
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  QKey qkey = kRdmaCmQKey;  // Of datagrams.
  std::uint8_t port = 1;    // Of the device.
};

/// How long a queue pair waits for an acknowledgement of a peer whose device takes `ack_delay`,
/// over a path of this PacketLifeTime; all three are 4.096 us * 2^value. IBA 12.7.34: the delay and
/// twice the life time, rounded as Linux does.
std::uint8_t ack_timeout_of(std::uint8_t ack_delay, std::uint8_t packet_life_time);

/// The address vector of the plan's peer: by LID over InfiniBand, and through a router by GID, too;
/// else by GID. `gid_index`: of the path's local GID.
ibv_ah_attr address_vector(const cm::Path& path, std::uint8_t gid_index);

/// Sets the attributes with which a queue pair of `type` goes to `state` (INIT, RTR or RTS; EINVAL
/// for others) and returns their mask. `gid_index`: of the plan's local GID. Other attributes stay
/// unchanged.
Result<int> attributes_for(const QueuePairPlan& plan, ibv_qp_type type, std::uint8_t gid_index,
                           ibv_qp_state state, ibv_qp_attr& attributes);

}  // namespace verbatim::connect
