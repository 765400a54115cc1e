#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace verbatim::offload {

/// A mapping of a file that another process may cut short at any time. Without a guard the next
/// access would end this process (SIGBUS): then zeros take the place of what was cut off.
class GuardedMapping {
 public:
  static constexpr std::size_t kMappingsMax = 4096;

  /// EINVAL, ENODEV...: as mmap(2); ENOSPC: kMappingsMax exist.
  static Result<GuardedMapping> map(int fd, std::uint64_t offset, std::uint64_t length);
  GuardedMapping(GuardedMapping&& other) noexcept;
  GuardedMapping& operator=(GuardedMapping&&) = delete;
  ~GuardedMapping();

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  /// Whether the file was cut: what is read here since then is not its content.
  bool was_cut() const;

 private:
  GuardedMapping(std::byte* data, std::uint64_t size, std::size_t slot)
      : data_(data), size_(size), slot_(slot) {}
  std::byte* data_;
  std::uint64_t size_;
  std::size_t slot_;
};

}  // namespace verbatim::offload
