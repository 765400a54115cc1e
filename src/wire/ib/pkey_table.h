#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/ib/bth.h"

namespace verbatim::wire {

/// Returns the index of the entry that lets a packet with the key `sent` in; none: it is a
/// stranger's (IBA 10.9.3). The answer has this entry's key, not the request's: a limited member is
/// answered with the full key, and a limited member answers a full one with its limited key. If
/// both keys of a partition match, the full one does, which reaches more.
constexpr std::optional<std::size_t> matching_entry(std::span<const std::uint16_t> table,
                                                    PKey sent) {
  constexpr std::uint16_t kFullMember = 0x8000;
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!pkeys_match(PKey{table[i]}, sent)) continue;
    if ((table[i] & kFullMember) != 0) return i;
    if (!found) found = i;
  }
  return found;
}

}  // namespace verbatim::wire
