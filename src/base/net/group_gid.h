#pragma once

#include <cstdint>

#include "base/net/address.h"
#include "base/types.h"

namespace verbatim {

/// Who uses a group: each use has a GID of its own for the same IP address.
enum class GroupUse : std::uint8_t {
  ip_over_infiniband,  // RFC 4391, section 4.
  rdma_cm,             // Of the datagram port space: as Linux's rdma_cm.
};

/// Returns the GID of the InfiniBand group for an IP multicast group, with link-local scope. An
/// IPv6 address that is such a GID already (ff1x:a01b::/32) is returned unchanged.
///
///     byte   0   1    2-3          4-5     6-11           12-15
///          +----+----+-----------+-------+--------------+---------------------+
///     IPv4 | ff | 12 | signature | P_Key | 0            | lower 28 bits       |
///     IPv6 | ff | 12 | signature | P_Key | lower 80 bits                      |
///          +----+----+-----------+-------+------------------------------------+
Gid group_gid_of(const SocketAddress& group, GroupUse use, PKey pkey);

/// Returns the GID of the broadcast group of a partition, whose attributes its other groups have
/// (RFC 4391, section 4).
Gid broadcast_gid_of(PKey pkey);

}  // namespace verbatim
