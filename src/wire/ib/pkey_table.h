#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/ib/bth.h"

namespace verbatim::wire {

inline constexpr std::uint16_t kFullMemberBit = 0x8000;

/// Returns the index of the entry that lets a packet with the key `sent` in; none: it is a
/// stranger's (IBA 10.9.3). The answer has this entry's key, not the request's: a limited member is
/// answered with the full key, and a limited member answers a full one with its limited key. If
/// both keys of a partition match, the full one does, which reaches more.
constexpr std::optional<std::size_t> matching_entry(std::span<const std::uint16_t> table,
                                                    PKey sent) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!pkeys_match(PKey{table[i]}, sent)) continue;
    if ((table[i] & kFullMemberBit) != 0) return i;
    if (!found) found = i;
  }
  return found;
}

/// Returns the index of the port's entry of a partition, whatever member `key` says; that of a full
/// member before that of a limited one.
constexpr std::optional<std::size_t> partition_entry(std::span<const std::uint16_t> table,
                                                     PKey key) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (((table[i] ^ raw(key)) & ~kFullMemberBit) != 0) continue;
    if ((table[i] & kFullMemberBit) != 0) return i;
    if (!found) found = i;
  }
  return found;
}

}  // namespace verbatim::wire
