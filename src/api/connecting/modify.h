#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

#include "verbatim/queue_pair.h"

namespace verbatim::inline v1::detail {

/// The address of the peer's queue pair, from the exchange.
struct PeerAddress {
  std::uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  bool has_gid = false;
  Gid gid;
  std::uint32_t queue_pair = 0;
  std::uint32_t psn = 0;
  std::uint8_t reads_in_flight = 0;
};

/// Builds an address vector for a context's port.
ibv_ah_attr address_of(const Context& context, bool has_gid, const Gid& gid, std::uint16_t lid);

/// From RESET to INIT; for a connected queue pair with the rights of peers.
Result<void> to_init(ibv_qp* queue_pair, const Context& context);
/// From INIT to RTR, then RTS.
Result<void> to_receive(ibv_qp* queue_pair, const Context& context, const PeerAddress& peer,
                        ibv_mtu mtu, const QueuePairOptions& options);
Result<void> to_send(ibv_qp* queue_pair, std::uint32_t psn, const PeerAddress& peer,
                     const QueuePairOptions& options);

/// From RESET to RTS, for a UD queue pair.
Result<void> to_send_datagrams(ibv_qp* queue_pair, const Context& context, std::uint32_t key);

}  // namespace verbatim::inline v1::detail
