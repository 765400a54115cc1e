#include "offload/card/packet_memory.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::offload {
namespace {
constexpr std::uint64_t kAddressEnd = std::uint64_t{1} << 56;
}  // namespace

Result<void> PacketMemory::add(const vnic_memory& piece, int fd) {
  if (piece.length == 0 || piece.length > kAddressEnd || piece.address > kAddressEnd) {
    return refuse(EINVAL, fmt::format("memory {:#x}+{}: there is no such memory",
                                      std::uint64_t{piece.address}, std::uint64_t{piece.length}));
  }
  const auto after = pieces_.upper_bound(piece.address);
  const bool overlaps_next = after != pieces_.end() && piece.address + piece.length > after->first;
  const bool overlaps_last =
      after != pieces_.begin() &&
      std::prev(after)->first + std::prev(after)->second.size() > piece.address;
  if (overlaps_next || overlaps_last) {
    return refuse(EINVAL, fmt::format("memory {:#x}+{} overlaps what is registered",
                                      std::uint64_t{piece.address}, std::uint64_t{piece.length}));
  }
  auto mapping = GuardedMapping::map(fd, piece.offset, piece.length);
  if (!mapping) return std::unexpected(mapping.error());
  pieces_.emplace(piece.address, std::move(*mapping));
  bytes_ += piece.length;
  return {};
}

std::byte* PacketMemory::find_piece(std::uint64_t address, std::uint32_t size) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return nullptr;
  const auto& [begin, mapping] = *std::prev(after);
  const std::uint64_t at = address - begin;
  if (at > mapping.size() || size > mapping.size() - at) return nullptr;
  last_ = {begin, mapping.size(), mapping.data()};
  return mapping.data() + at;
}

bool PacketMemory::was_cut() const {
  return std::ranges::any_of(pieces_, [](const auto& piece) { return piece.second.was_cut(); });
}

}  // namespace verbatim::offload
