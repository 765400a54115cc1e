#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/bytes.h"
#include "base/error.h"

namespace verbatim::adapter {

/// Device memory (`ibv_alloc_dm`): buffers that programs access by copying and by regions over
/// them. Here it is memory of the process, up to a limit. Thread-safe.
class DeviceMemory {
 public:
  static constexpr std::uint64_t kBytesMax = 16 << 20;  // For all buffers of a process.
  static constexpr std::uint32_t kAlignMax = 12;        // Log 2: a page.
  static constexpr std::size_t kCopyUnit = 4;           // Unit of offsets and lengths of copies.

  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Allocates a zeroed buffer and returns its handle. EINVAL for length 0 or an alignment that is
  /// too large, ENOMEM at the limit.
  Result<std::uint32_t> allocate(std::uint64_t length, std::uint32_t log_align);
  /// EBUSY while regions are over it.
  Result<void> free(std::uint32_t handle);
  /// Returns the error that `free` would.
  Result<void> check_unused(std::uint32_t handle);
  /// ENOENT if there is no such buffer.
  Result<MutableByteSpan> find(std::uint32_t handle);
  /// EFAULT if some bytes are outside the buffer, EINVAL if they are not aligned.
  static Result<void> check_range(ByteSpan buffer, std::uint64_t offset, std::size_t length);
  Result<void> copy_in(std::uint32_t handle, std::uint64_t offset, ByteSpan from);
  Result<void> copy_out(std::uint32_t handle, std::uint64_t offset, MutableByteSpan to);

  /// Count the regions over it.
  void add_region(std::uint32_t handle);
  void remove_region(std::uint32_t handle);

 private:
  struct Buffer {
    MutableByteSpan bytes;
    std::uint32_t regions = 0;
  };
  Result<MutableByteSpan> range(std::uint32_t handle, std::uint64_t offset, std::size_t length);

  Result<std::map<std::uint32_t, Buffer>::iterator> find_unused(std::uint32_t handle);

  std::mutex lock_;  // Protects the members below.
  std::map<std::uint32_t, Buffer> buffers_;
  std::uint32_t last_handle_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace verbatim::adapter
