#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/error.h"
#include "offload/card/guarded_mapping.h"
#include "offload/ring/layout.h"

namespace verbatim::offload {

/// The memory that a driver has registered, by the driver's addresses.
class PacketMemory {
 public:
  /// EINVAL: no address space has such a piece, or it overlaps another one; ENOSPC: too many;
  /// else as mmap(2).
  Result<void> add(const vnic_memory& piece, int fd);

  /// Returns where `size` bytes at the driver's address are, null if they are not all in one piece.
  std::byte* find(std::uint64_t address, std::uint32_t size) const {
    const std::uint64_t at = address - last_.begin;
    if (at < last_.size && size <= last_.size - at) return last_.data + at;
    return find_piece(address, size);
  }
  bool was_cut() const;
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* find_piece(std::uint64_t address, std::uint32_t size) const;

  /// The piece that was found last: most clients have one.
  struct Last {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
    std::byte* data = nullptr;
  };
  mutable Last last_;
  std::map<std::uint64_t, GuardedMapping> pieces_;  // By the driver's address.
  std::uint64_t bytes_ = 0;
};

}  // namespace verbatim::offload
