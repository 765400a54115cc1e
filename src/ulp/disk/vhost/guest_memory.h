#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "ulp/disk/vhost/protocol.h"

namespace verbatim::ulp::disk::vhost {

/// A piece of guest memory as the guest names it. Nothing of it is true until it is looked up.
struct Piece {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
};

/// The memory that a frontend shares. Every access is looked up: what is not wholly in it is
/// refused. The guest changes it at any time, so what is decided upon is copied first.
class GuestMemory {
 public:
  GuestMemory() = default;
  GuestMemory(GuestMemory&& other) noexcept : regions_(std::exchange(other.regions_, {})) {}
  GuestMemory& operator=(GuestMemory&& other) noexcept {
    std::swap(regions_, other.regions_);
    return *this;
  }
  ~GuestMemory();

  /// Maps what the descriptors have, one a region. EINVAL: addresses that wrap or overlap, or a
  /// file that is too short.
  static Result<GuestMemory> map(std::span<const MemoryRegion> table,
                                 std::span<const UniqueFd> descriptors);
  /// Memory of this process, for tests: stays the caller's.
  void add(std::uint64_t guest, std::uint64_t user, MutableByteSpan memory) {
    regions_.push_back({guest, user, memory, {}});
  }

  /// By the frontend's addresses, as rings are: in one region. Null: it is not there.
  std::byte* find_user(std::uint64_t user, std::uint64_t bytes) const;
  /// By the guest's, over regions that adjoin. False: some of it is not there, and what is there
  /// may have been copied.
  bool read(std::uint64_t guest, MutableByteSpan to) const;
  bool write(std::uint64_t guest, ByteSpan from) const;
  /// The same of pieces, behind the first `skip` bytes.
  bool read(std::span<const Piece> pieces, std::uint64_t skip, MutableByteSpan to) const;
  bool write(std::span<const Piece> pieces, std::uint64_t skip, ByteSpan from) const;

 private:
  struct Region {
    std::uint64_t guest = 0, user = 0;
    MutableByteSpan memory;
    MutableByteSpan mapped;  // Empty: not ours to unmap.
  };
  /// As much of this as one region has.
  MutableByteSpan find_guest(std::uint64_t guest, std::uint64_t bytes) const;

  std::vector<Region> regions_;
};

}  // namespace verbatim::ulp::disk::vhost
