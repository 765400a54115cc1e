#pragma once

#include <expected>
#include <optional>

#include "base/net/address.h"
#include "cm/messages.h"

/// For the agent, which has the node's QP1 and keeps no connection: whose MAD is this?
namespace verbatim::cm {

/// Where a message of the communication manager belongs.
struct Route {
  /// The slot in the upper 10 bits of our own communication id, where the message names one.
  std::optional<std::uint16_t> slot{};
  /// REQ and SIDR_REQ name a service instead.
  ServiceId service{};
  bool datagram = false;
  IpEndpoints ends{};  // Empty where there is no RDMA IP header.
};

/// The slot of a local communication id.
constexpr std::uint16_t slot_of(std::uint32_t communication_id) {
  return static_cast<std::uint16_t>(communication_id >> 22);
}

/// A REJ of a REQ whose sender never learned our id has neither slot (0) nor service: give it to
/// nobody. The other side's time-outs do the rest.
std::expected<Route, wire::WireError> route_of(ByteSpan mad);

/// What a node without an owner for the message answers: REJ "invalid service id" to a REQ, "not
/// supported" to a SIDR_REQ, DREP to a DREQ, REJ "invalid communication id" to a REP; nothing to
/// the others. `from` and `to` as in `ConnectionManager::on_mad`.
std::optional<SendMad> answer_unmatched(ByteSpan mad, const SocketAddress& from,
                                        const SocketAddress& to);

/// What a node answers to a REQ that came over another RoCE version than its communication manager
/// uses: REJ "primary GID rejected", for a GID is of one version. Nothing to other messages.
std::optional<SendMad> answer_to_other_version(ByteSpan mad, const SocketAddress& from,
                                               const SocketAddress& to);

}  // namespace verbatim::cm
