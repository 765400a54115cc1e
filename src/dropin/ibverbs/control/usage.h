#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "config/device.h"

/// The device's limits, as a card's driver sees to them before the card is asked.

namespace verbatim::dropin {

/// What a device has a limited number of.
enum class Resource : std::uint8_t {
  queue_pair,
  completion_queue,
  region,
  window,
  protection_domain,
  shared_receive_queue,
  address_handle,
  none,  // A share of locked memory alone.
};
inline constexpr std::size_t kResources = 7;

class Usage;

/// The place that one object takes of its kind, and of locked memory; given back at its end.
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

  /// Locks so many pages beside what it has locked. As `Usage::lock`.
  Result<void> lock(std::uint64_t pages);
  /// Another memory takes the place of the object's.
  void swap_locked(Share& other) { std::swap(locked_pages_, other.locked_pages_); }

 private:
  Usage* usage_ = nullptr;
  Resource resource_{};
  std::uint64_t locked_pages_ = 0;
};

/// What a program has of its device. Creation asks here, and no request does. Thread-safe.
class Usage {
 public:
  Usage(const config::DeviceLimits& limits, bool enforces_memlock)
      : limits_(limits), enforces_memlock_(enforces_memlock) {}
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;

  const config::DeviceLimits& limits() const { return limits_; }

  /// Counts one object more. ENOMEM if the device has no more of them, as drivers say.
  Result<Share> take(Resource resource);
  /// The same, and locks its memory.
  Result<Share> take(Resource resource, std::uint64_t pages);
  Share nothing() { return {this, Resource::none}; }

  /// Where the node enforces it, counts pages as a kernel that pins them does: each registration
  /// for itself, whatever overlaps. ENOMEM above RLIMIT_MEMLOCK as it is now, but for a program
  /// with CAP_IPC_LOCK.
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

/// EINVAL if `value` is above `limit`, with both and `what` they are of.
Result<void> check_limit(const char* what, std::uint32_t value, std::uint32_t limit);

/// The pages that these bytes lie in.
std::uint64_t pages_of(const void* address, std::uint64_t length);

/// What a driver pins for queues, about as the mlx5 driver lays them out: 64 bytes at a time for a
/// send request with its segments or inline data, 16 for a segment of a receive request, 64 for a
/// completion.
std::uint64_t send_queue_pages(std::uint32_t requests, std::uint32_t segments,
                               std::uint32_t inline_bytes);
std::uint64_t receive_queue_pages(std::uint32_t requests, std::uint32_t segments);
std::uint64_t completion_queue_pages(std::uint32_t entries);

}  // namespace verbatim::dropin
