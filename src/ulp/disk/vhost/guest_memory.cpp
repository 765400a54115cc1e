#include "ulp/disk/vhost/guest_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace verbatim::ulp::disk::vhost {
namespace {

bool wraps(std::uint64_t at, std::uint64_t bytes) {
  return bytes > std::numeric_limits<std::uint64_t>::max() - at;
}

bool overlap(std::uint64_t a, std::uint64_t a_bytes, std::uint64_t b, std::uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/// Calls `use(part, done)` for each part of `pieces` behind `skip`, until `bytes` are done.
template <typename Use>
bool for_each_part(std::span<const Piece> pieces, std::uint64_t skip, std::uint64_t bytes,
                   Use use) {
  std::uint64_t done = 0;
  for (const Piece& piece : pieces) {
    if (done == bytes) break;
    const std::uint64_t skipped = std::min<std::uint64_t>(skip, piece.bytes);
    skip -= skipped;
    const auto part = std::min(piece.bytes - skipped, bytes - done);
    if (part == 0) continue;
    if (wraps(piece.address, skipped) || !use(piece.address + skipped, done, part)) return false;
    done += part;
  }
  return done == bytes;
}

}  // namespace

GuestMemory::~GuestMemory() {
  for (const Region& region : regions_)
    if (!region.mapped.empty()) munmap(region.mapped.data(), region.mapped.size());
}

Result<GuestMemory> GuestMemory::map(std::span<const MemoryRegion> table,
                                     std::span<const UniqueFd> descriptors) {
  if (table.size() != descriptors.size())
    return refuse(EINVAL, fmt::format("{} regions of memory come with {} descriptors", table.size(),
                                      descriptors.size()));
  GuestMemory memory;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const MemoryRegion& region = table[i];
    const auto refused = [&](const char* why) {
      return refuse(EINVAL, fmt::format("{:#x} bytes of memory at {:#x}: {}", region.bytes,
                                        region.guest, why));
    };
    struct stat info{};
    if (fstat(descriptors[i].get(), &info) != 0) return refuse_errno("memory's descriptor");
    if (region.bytes == 0 || wraps(region.guest, region.bytes) ||
        wraps(region.user, region.bytes) || wraps(region.offset, region.bytes))
      return refused("no such addresses");
    if (info.st_size < 0 || region.offset + region.bytes > static_cast<std::uint64_t>(info.st_size))
      return refused("its file is shorter");
    for (const Region& other : memory.regions_)
      if (overlap(region.guest, region.bytes, other.guest, other.memory.size()) ||
          overlap(region.user, region.bytes, other.user, other.memory.size()))
        return refused("another has some of these addresses");
    // From the file's begin: huge pages are mapped as wholes.
    const std::size_t bytes = region.offset + region.bytes;
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                          descriptors[i].get(), 0);
    if (at == MAP_FAILED) return refuse_errno("memory of the guest");
    const MutableByteSpan mapped(static_cast<std::byte*>(at), bytes);
    memory.regions_.push_back({region.guest, region.user, mapped.subspan(region.offset), mapped});
  }
  return memory;
}

std::byte* GuestMemory::find_user(std::uint64_t user, std::uint64_t bytes) const {
  for (const Region& region : regions_) {
    const std::uint64_t size = region.memory.size();
    if (user < region.user || user - region.user > size) continue;
    if (bytes <= size - (user - region.user)) return region.memory.data() + (user - region.user);
  }
  return nullptr;
}

MutableByteSpan GuestMemory::find_guest(std::uint64_t guest, std::uint64_t bytes) const {
  for (const Region& region : regions_) {
    if (guest < region.guest || guest - region.guest >= region.memory.size()) continue;
    const MutableByteSpan rest = region.memory.subspan(guest - region.guest);
    return rest.first(std::min<std::uint64_t>(rest.size(), bytes));
  }
  return {};
}

bool GuestMemory::read(std::uint64_t guest, MutableByteSpan to) const {
  while (!to.empty()) {
    const ByteSpan part = find_guest(guest, to.size());
    if (part.empty()) return false;
    std::memcpy(to.data(), part.data(), part.size());
    to = to.subspan(part.size()), guest += part.size();
  }
  return true;
}

bool GuestMemory::write(std::uint64_t guest, ByteSpan from) const {
  while (!from.empty()) {
    const MutableByteSpan part = find_guest(guest, from.size());
    if (part.empty()) return false;
    std::memcpy(part.data(), from.data(), part.size());
    from = from.subspan(part.size()), guest += part.size();
  }
  return true;
}

bool GuestMemory::read(std::span<const Piece> pieces, std::uint64_t skip,
                       MutableByteSpan to) const {
  return for_each_part(pieces, skip, to.size(),
                       [&](std::uint64_t at, std::uint64_t done, std::uint64_t bytes) {
                         return read(at, to.subspan(done, bytes));
                       });
}

bool GuestMemory::write(std::span<const Piece> pieces, std::uint64_t skip, ByteSpan from) const {
  return for_each_part(pieces, skip, from.size(),
                       [&](std::uint64_t at, std::uint64_t done, std::uint64_t bytes) {
                         return write(at, from.subspan(done, bytes));
                       });
}

}  // namespace verbatim::ulp::disk::vhost
