#include "adapter/memory/device_memory.h"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>

namespace verbatim::adapter {

DeviceMemory::~DeviceMemory() {
  for (const auto& [handle, buffer] : buffers_) munmap(buffer.bytes.data(), buffer.bytes.size());
}

Result<std::uint32_t> DeviceMemory::allocate(std::uint64_t length, std::uint32_t log_align) {
  if (length == 0) return refuse(EINVAL, "device memory of no bytes");
  if (log_align > kAlignMax) {
    return refuse(EINVAL, fmt::format("log_align_req {} is above {}", log_align, kAlignMax));
  }
  const std::lock_guard guard(lock_);
  if (length > kBytesMax - used_) {
    return refuse(ENOMEM, fmt::format("{} bytes of device memory: {} of {} are in use", length,
                                      used_, kBytesMax));
  }
  void* const at =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return refuse(ENOMEM, fmt::format("mmap: {}", std::strerror(errno)));
  used_ += length;
  do {
    ++last_handle_;
  } while (last_handle_ == 0 || buffers_.contains(last_handle_));
  buffers_.emplace(last_handle_, Buffer{.bytes = {static_cast<std::byte*>(at), length}});
  return last_handle_;
}

/// Requires lock_.
auto DeviceMemory::find_unused(std::uint32_t handle)
    -> Result<std::map<std::uint32_t, Buffer>::iterator> {
  const auto found = buffers_.find(handle);
  if (found == buffers_.end()) return refuse(EINVAL, "there is no such device memory");
  if (found->second.regions > 0) {
    return refuse(EBUSY, fmt::format("{} memory regions lie over it", found->second.regions));
  }
  return found;
}

Result<void> DeviceMemory::check_unused(std::uint32_t handle) {
  const std::lock_guard guard(lock_);
  const auto found = find_unused(handle);
  if (!found) return std::unexpected(found.error());
  return {};
}

Result<void> DeviceMemory::free(std::uint32_t handle) {
  const std::lock_guard guard(lock_);
  const auto found = find_unused(handle);
  if (!found) return std::unexpected(found.error());
  const MutableByteSpan bytes = (*found)->second.bytes;
  munmap(bytes.data(), bytes.size());
  used_ -= bytes.size();
  buffers_.erase(*found);
  return {};
}

Result<MutableByteSpan> DeviceMemory::find(std::uint32_t handle) {
  const std::lock_guard guard(lock_);
  const auto found = buffers_.find(handle);
  if (found == buffers_.end()) {
    return refuse(ENOENT, fmt::format("there is no device memory with the handle {}", handle));
  }
  return found->second.bytes;
}

Result<void> DeviceMemory::check_range(ByteSpan buffer, std::uint64_t offset, std::size_t length) {
  if (offset > buffer.size() || length > buffer.size() - offset) {
    return refuse(EFAULT, fmt::format("offset {} + {} bytes is not all in the {} bytes", offset,
                                      length, buffer.size()));
  }
  if (offset % kCopyUnit == 0 && length % kCopyUnit == 0) return {};
  return refuse(EINVAL, fmt::format("offset {} and length {} must be multiples of {}", offset,
                                    length, kCopyUnit));
}

Result<MutableByteSpan> DeviceMemory::range(std::uint32_t handle, std::uint64_t offset,
                                            std::size_t length) {
  const auto bytes = find(handle);
  if (!bytes) return bytes;
  if (auto good = check_range(*bytes, offset, length); !good) return std::unexpected(good.error());
  return bytes->subspan(offset, length);
}

Result<void> DeviceMemory::copy_in(std::uint32_t handle, std::uint64_t offset, ByteSpan from) {
  const auto to = range(handle, offset, from.size());
  if (!to) return std::unexpected(to.error());
  std::memcpy(to->data(), from.data(), from.size());
  return {};
}

Result<void> DeviceMemory::copy_out(std::uint32_t handle, std::uint64_t offset,
                                    MutableByteSpan to) {
  const auto from = range(handle, offset, to.size());
  if (!from) return std::unexpected(from.error());
  std::memcpy(to.data(), from->data(), to.size());
  return {};
}

void DeviceMemory::add_region(std::uint32_t handle) {
  const std::lock_guard guard(lock_);
  if (const auto found = buffers_.find(handle); found != buffers_.end()) ++found->second.regions;
}

void DeviceMemory::remove_region(std::uint32_t handle) {
  const std::lock_guard guard(lock_);
  if (const auto found = buffers_.find(handle); found != buffers_.end()) --found->second.regions;
}

}  // namespace verbatim::adapter
