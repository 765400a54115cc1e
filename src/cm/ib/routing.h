#pragma once

#include <expected>
#include <optional>

#include "base/net/address.h"
#include "base/net/path.h"
#include "cm/messages.h"

/// Routing of CM messages by the agent, which has the node's QP1 and keeps no connection.
namespace verbatim::cm {

/// The program that a CM message is for: by slot or by service.
struct Route {
  /// The slot: the upper 10 bits of our communication id, if the message contains it.
  std::optional<std::uint16_t> slot{};
  /// REQ and SIDR_REQ have a service instead.
  ServiceId service{};
  bool datagram = false;
  IpEndpoints ends{};  // Empty if there is no RDMA IP header.
};

/// Returns the slot of a local communication id.
constexpr std::uint16_t slot_of(std::uint32_t communication_id) {
  return static_cast<std::uint16_t>(communication_id >> 22);
}

/// A REJ for a REQ, from a sender that never learned our id, has neither a slot (0) nor a service:
/// drop it. The connection times out.
std::expected<Route, wire::WireError> route_of(ByteSpan mad);

/// Returns the answer to a message for which no program is found: REJ "invalid service id" to a
/// REQ, "not supported" to a SIDR_REQ, DREP to a DREQ, REJ "invalid communication id" to a REP,
/// nothing to others. `from` and `to` as in `ConnectionManager::on_mad`.
std::optional<SendMad> answer_unmatched(ByteSpan mad, const verbatim::Path& from,
                                        const SocketAddress& to);

/// Returns the answer to a REQ that came over another RoCE version than the node's CM uses: REJ
/// "primary GID rejected", because a GID belongs to one version. Nothing for other messages.
std::optional<SendMad> answer_to_other_version(ByteSpan mad, const verbatim::Path& from,
                                               const SocketAddress& to);

}  // namespace verbatim::cm
