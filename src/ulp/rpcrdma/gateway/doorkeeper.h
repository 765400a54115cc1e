#pragma once

#include <cstdint>

#include "service/channel.h"

/// An NFS server believes whoever reaches its port (AUTH_SYS), and each user of a machine reaches
/// the ports of 127.0.0.1. So nfs-ganesha has a network namespace of its own, and a doorkeeper in
/// it: a process that starts it, ends with it, and makes the gateway's sockets that are connected
/// with it. No user but root and its own gets in there.
namespace verbatim::ulp::rpcrdma {

/// Between the gateway and its doorkeeper, in order: the doorkeeper's report whether all is made,
/// then each question of the gateway for a socket, and its answer. Report and answer are an errno
/// value, 0 with a socket beside the answer, whose connect is under way.
inline constexpr service::Protocol kDoorProtocol{.magic = 0x4e46'5344, .version = 1};
enum class DoorMessage : std::uint16_t { report, question, answer };

inline constexpr int kDoorDescriptor = 3;  // The doorkeeper's end.

/// verbatim-ulpd nfs-doorkeeper own|shared PORT PROGRAM [ARGUMENT]...: with a network of its own,
/// or in the gateway's. `Ganesha` alone starts it.
int run_nfs_doorkeeper(int argc, char** argv);

}  // namespace verbatim::ulp::rpcrdma
