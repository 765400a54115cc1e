#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <unistd.h>

#include "arena/arena_header.h"

/// The agent's access to a program's arena: by read calls, because the program may write or
/// truncate its file at any moment, and because reading a hole allocates nothing.
namespace verbatim::agent {

/// Copies objects from an offset of the file. Returns false if the file does not have all of them.
template <typename T>
bool read_objects(int fd, std::uint64_t offset, std::span<T> objects) {
  const auto bytes = std::as_writable_bytes(objects);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto length =
        pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (length <= 0) return false;
    done += static_cast<std::size_t>(length);
  }
  return true;
}

/// Calls `use(object, index)` for each of `count` objects of a table of the arena. Read in pieces:
/// a table has some megabytes, most of it holes. Returns false if the file does not have all of
/// them.
template <typename T, typename Use>
bool for_each_object(int fd, std::uint64_t offset, std::size_t count, Use use) {
  constexpr std::size_t kPiece = 256;
  const auto piece = std::make_unique<T[]>(kPiece);
  for (std::size_t first = 0; first < count; first += kPiece) {
    const std::size_t here = std::min(kPiece, count - first);
    if (!read_objects(fd, offset + first * sizeof(T), std::span(piece.get(), here))) return false;
    for (std::size_t i = 0; i < here; ++i) use(piece[i], first + i);
  }
  return true;
}

/// Returns null if the program has no arena (-1), or one of another release.
inline std::unique_ptr<arena::ArenaHeader> read_arena_header(int arena_fd) {
  using arena::ArenaHeader;
  auto header = std::make_unique<ArenaHeader>();
  const bool is_ours = arena_fd >= 0 && read_objects(arena_fd, 0, std::span(header.get(), 1)) &&
                       header->magic == ArenaHeader::kMagic &&
                       header->version == ArenaHeader::kVersion;
  return is_ours ? std::move(header) : nullptr;
}

}  // namespace verbatim::agent
