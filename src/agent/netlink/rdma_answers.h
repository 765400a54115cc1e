#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/netlink/rdma_facts.h"
#include "base/bytes.h"

namespace verbatim::agent::netlink {

/// Who asks.
struct Asker {
  std::uint32_t port = 0;         // Of its socket.
  bool has_admin_rights = false;  // CAP_NET_ADMIN, as far as it is known.
};

/// No datagram of an answer is longer: programs receive into 4096 bytes or more.
inline constexpr std::size_t kAnswerBytesMax = 3776;

/// The datagrams by which Linux (drivers/infiniband/core/nldev.c) answers a program's: what was
/// asked, an error, an acknowledgement, or the end of a dump, for each message in it. Empty if the
/// datagram has no whole message. Without I/O.
std::vector<std::vector<std::byte>> answer(ByteSpan datagram, const RdmaFacts& facts,
                                           const Asker& asker);

}  // namespace verbatim::agent::netlink
