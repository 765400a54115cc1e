#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/types.h"

namespace verbatim::link {

inline constexpr std::uint16_t kRoceV1EtherType = 0x8915;

/// A socket for the RoCE v1 packets to one GID and one range of queue pair numbers, those whose
/// bits above the lowest `qpn_bits` say `slot`: a packet socket of all interfaces, the loopback one
/// among them, over which the kernel carries what stays on this machine. The kernel compares GRH
/// and BTH (IBA annex A16). EPERM without CAP_NET_RAW.
Result<UniqueFd> open_frame_socket(const Gid& destination, std::uint32_t slot,
                                   std::uint32_t qpn_bits);

/// The same for a multicast group, whose frames the interface takes from now on.
Result<UniqueFd> open_group_frame_socket(const Gid& group, std::uint32_t interface_index);

}  // namespace verbatim::link
