#pragma once

#include <cstdint>

#include "dropin/rdspreload/linux_rds.h"

/// Memory of the program that peers may use. Its pages move into a file (region/adoption), which
/// the broker maps; the program does not notice. C calls: -1 and errno. Any thread.
namespace verbatim::rdspreload {

/// RDS_GET_MR. Also writes the cookie to where the program wants it. EBUSY: memory that cannot
/// move: a stack, a file's, or shared memory.
int grant(int fd, const GetMemory& asked, std::uint64_t& cookie);
/// RDS_FREE_MR
int end_grant(int fd, std::uint64_t cookie);
/// A peer has used this key: if it was granted once, its pages move back.
void on_used(std::uint32_t key);
/// The program's last RDS socket is closed.
void end_all_grants();

}  // namespace verbatim::rdspreload
