#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/types.h"

namespace verbatim::link {

inline constexpr std::uint16_t kRoceV1EtherType = 0x8915;

/// Opens a socket for the RoCE v1 packets to one GID and one range of queue pair numbers: those
/// whose bits above the lowest `qpn_bits` equal `slot`. It is a packet socket of all interfaces,
/// including the loopback one, over which the kernel carries traffic within the machine. The kernel
/// compares GRH and BTH (IBA annex A16). EPERM without CAP_NET_RAW.
Result<UniqueFd> open_frame_socket(const Gid& destination, std::uint32_t slot,
                                   std::uint32_t qpn_bits);

/// The same for a multicast group, which the interface joins.
Result<UniqueFd> open_group_frame_socket(const Gid& group, std::uint32_t interface_index);

}  // namespace verbatim::link
