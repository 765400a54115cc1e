#pragma once

#include <cstddef>

#include <sys/types.h>

/// Calls on devices of storage initiators, asked of the node's daemon. Each sends a message that is
/// answered: the number of the call, how many bytes of data, struct nvme_passthru_cmd in 80 bytes,
/// and what goes to the device (src/ulp/initiator/nvme/device_request.h). Addresses are the
/// program's: EFAULT if there is nothing. errno changes as the call says.
namespace verbatim::view {

/// As ioctl(2).
int control_device(int fd, unsigned long request, void* argument);

/// As read(2), pread(2) and so on, for block devices. An offset of -1: where the descriptor is.
constexpr off_t kAtPosition = -1;
ssize_t read_device(int fd, void* bytes, std::size_t size, off_t offset);
ssize_t write_device(int fd, const void* bytes, std::size_t size, off_t offset);
off_t seek_device(int fd, off_t offset, int whence);
int flush_device(int fd);

}  // namespace verbatim::view
