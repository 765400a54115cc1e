#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "config/device.h"

/// The device's limits, which are checked before the adapter is called, as a driver does.

namespace verbatim::dropin {

/// Kinds of objects whose number a device limits.
enum class Resource : std::uint8_t {
  queue_pair,
  completion_queue,
  region,
  window,
  protection_domain,
  shared_receive_queue,
  address_handle,
  none,  // Counts locked memory only.
};
inline constexpr std::size_t kResources = 7;

class Usage;

/// What one object uses of the limits: one object of its kind, and locked memory. Released at its
/// end.
class Share {
 public:
  Share() = default;
  Share(Usage* usage, Resource resource) : usage_(usage), resource_(resource) {}
  Share(Share&& other) noexcept
      : usage_(std::exchange(other.usage_, nullptr)),
        resource_(other.resource_),
        locked_pages_(std::exchange(other.locked_pages_, 0)) {}
  Share& operator=(Share&& other) noexcept {
    std::swap(usage_, other.usage_);
    std::swap(resource_, other.resource_);
    std::swap(locked_pages_, other.locked_pages_);
    return *this;
  }
  ~Share();

  /// Locks `pages` more. Errors as `Usage::lock`.
  Result<void> lock(std::uint64_t pages);
  /// Exchanges the locked pages of two objects.
  void swap_locked(Share& other) { std::swap(locked_pages_, other.locked_pages_); }

 private:
  Usage* usage_ = nullptr;
  Resource resource_{};
  std::uint64_t locked_pages_ = 0;
};

/// What a program uses of its device. Called when objects are created, never for a request.
/// Thread-safe.
class Usage {
 public:
  Usage(const config::DeviceLimits& limits, bool enforces_memlock)
      : limits_(limits), enforces_memlock_(enforces_memlock) {}
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;

  const config::DeviceLimits& limits() const { return limits_; }

  /// Counts one object. ENOMEM at the device's limit, as drivers return.
  Result<Share> take(Resource resource);
  /// The same, and locks the object's memory.
  Result<Share> take(Resource resource, std::uint64_t pages);
  Share nothing() { return {this, Resource::none}; }

  /// Counts locked pages, if the node enforces the limit, as a kernel that pins pages does: each
  /// registration counts, even if they overlap. ENOMEM above the current RLIMIT_MEMLOCK, unless the
  /// program has CAP_IPC_LOCK.
  Result<void> lock(std::uint64_t pages);
  void unlock(std::uint64_t pages) { locked_pages_.fetch_sub(pages, std::memory_order_relaxed); }
  std::uint64_t locked_pages() const { return locked_pages_.load(std::memory_order_relaxed); }

 private:
  friend class Share;
  void give_back(Resource resource);

  const config::DeviceLimits limits_;
  const bool enforces_memlock_;
  std::array<std::atomic<std::uint32_t>, kResources> counts_{};
  std::atomic<std::uint64_t> locked_pages_ = 0;
};

/// EINVAL if `value` is above `limit`; the text has both and `what`.
Result<void> check_limit(const char* what, std::uint32_t value, std::uint32_t limit);

/// Returns the number of pages that contain these bytes.
std::uint64_t pages_of(const void* address, std::uint64_t length);

/// Pages that a driver pins for queues, about as the mlx5 driver lays them out: a send request with
/// its segments or inline data in units of 64 bytes, 16 for each receive segment, 64 for a
/// completion.
std::uint64_t send_queue_pages(std::uint32_t requests, std::uint32_t segments,
                               std::uint32_t inline_bytes);
std::uint64_t receive_queue_pages(std::uint32_t requests, std::uint32_t segments);
std::uint64_t completion_queue_pages(std::uint32_t entries);

}  // namespace verbatim::dropin
