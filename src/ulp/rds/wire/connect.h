#pragma once

#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "base/net/address.h"
#include "ulp/engine/meeting.h"
#include "ulp/rds/wire/header.h"

namespace verbatim::ulp::rds {

/// Ports of rdma_cm's TCP space. Each takes connections of its own family alone.
inline constexpr std::uint16_t kPortOfIpv4 = 18634;
inline constexpr std::uint16_t kPortOfIpv6 = 16385;

/// Versions of RDS differ in how connections begin, not in messages.
struct Version {
  std::uint8_t major = 3;
  std::uint8_t minor = 1;
  friend bool operator==(const Version&, const Version&) = default;
};

/// Private data of a connection's request and of its answer. With IPv6, addresses have 16 bytes.
///
///     byte 0-3      4-7           8       9       10-11        12    13-15  16-23  24-27    28-31
///         +--------+-------------+-------+-------+------------+-----+------+------+--------+------+
///         | source | destination | major | minor | minor mask | tos | rsvd | ack  | credit | rsvd
///         |
///         +--------+-------------+-------+-------+------------+-----+------+------+--------+------+
struct ConnectData {
  SocketAddress source{};       // Of who sends it. Ports are 0.
  SocketAddress destination{};  // Both of one family.
  Version version{};
  std::uint16_t minor_mask = 0x0003;  // Minor versions of 4.x that it speaks, a bit each.
  std::uint8_t tos = 0;
  std::uint64_t acknowledged = 0;  // The last sequence that it has received of this peer.
  std::uint32_t credit = 0;        // Not 0: it wants flow control by credits.
  friend bool operator==(const ConnectData&, const ConnectData&) = default;
};
/// `family`: AF_INET or AF_INET6, which the connection's addresses tell; the bytes do not.
std::expected<ConnectData, WireError> decode_connect(ByteSpan bytes, int family);
PrivateData encode(const ConnectData& data);

/// The version for an answer to `request`: 3.1, or 4 with the highest common minor.
std::expected<Version, WireError> version_for(const ConnectData& request);

/// A rejection's private data. Linux sends 1 whatever the reason, in its own byte order.
PrivateData encode_rejection();

}  // namespace verbatim::ulp::rds
