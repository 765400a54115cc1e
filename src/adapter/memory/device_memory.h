#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/bytes.h"
#include "base/error.h"

namespace verbatim::adapter {

/// The memory that an adapter has of its own (`ibv_alloc_dm`): buffers that programs reach by
/// copying and by regions over them. Ours is the process's memory, up to a limit. Thread-safe.
class DeviceMemory {
 public:
  static constexpr std::uint64_t kBytesMax = 16 << 20;  // Of all buffers of a process.
  static constexpr std::uint32_t kAlignMax = 12;        // Log 2: a page.
  static constexpr std::size_t kCopyUnit = 4;  // Offsets and lengths of copies are multiples.

  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// A zeroed buffer; its handle. EINVAL for no bytes or too coarse an alignment, ENOMEM when the
  /// limit is reached.
  Result<std::uint32_t> allocate(std::uint64_t length, std::uint32_t log_align);
  /// EBUSY while regions lie over it.
  Result<void> free(std::uint32_t handle);
  /// What `free` would say.
  Result<void> check_unused(std::uint32_t handle);
  /// ENOENT: there is no such buffer.
  Result<MutableByteSpan> find(std::uint32_t handle);
  /// EFAULT where the bytes are not all in the buffer, EINVAL where they are not aligned.
  static Result<void> check_range(ByteSpan buffer, std::uint64_t offset, std::size_t length);
  Result<void> copy_in(std::uint32_t handle, std::uint64_t offset, ByteSpan from);
  Result<void> copy_out(std::uint32_t handle, std::uint64_t offset, MutableByteSpan to);

  /// A region lies over it, or no longer.
  void add_region(std::uint32_t handle);
  void remove_region(std::uint32_t handle);

 private:
  struct Buffer {
    MutableByteSpan bytes;
    std::uint32_t regions = 0;
  };
  Result<MutableByteSpan> range(std::uint32_t handle, std::uint64_t offset, std::size_t length);

  Result<std::map<std::uint32_t, Buffer>::iterator> find_unused(std::uint32_t handle);

  std::mutex lock_;  // Guards what follows.
  std::map<std::uint32_t, Buffer> buffers_;
  std::uint32_t last_handle_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace verbatim::adapter
