#pragma once

#include <cstdint>

#include "fabric/data/image/where.h"

/// The word of a link that says who moves its packets, and what has come for that one.
///
///     bits    63    32-62              0-31
///          +------+------------------+-------+
///          | news | newest of inbox  | owner |
///          +------+------------------+-------+
///
/// The inbox is a chain from the newest packet to the oldest. Nobody waits for a gate: who finds it
/// taken leaves what it has in the word, and the owner cannot miss that: it leaves by a
/// compare-and-swap of the whole word.
namespace verbatim::fabric {

class Gate {
 public:
  constexpr explicit Gate(std::uint64_t word) : word_(word) {}
  constexpr std::uint64_t word() const { return word_; }
  constexpr std::uint32_t owner() const { return static_cast<std::uint32_t>(word_); }
  constexpr Handle newest() const { return static_cast<Handle>(word_ >> 32) & 0x7fff'ffff; }
  constexpr bool has_news() const { return (word_ & kNews) != 0; }

  constexpr Gate with_owner(std::uint32_t owner) const {
    return Gate((word_ & ~0xffff'ffffULL) | owner);
  }
  constexpr Gate with_newest(Handle newest) const {
    return Gate((word_ & (kNews | 0xffff'ffffULL)) | std::uint64_t{newest & 0x7fff'ffff} << 32);
  }
  constexpr Gate with_news() const { return Gate(word_ | kNews); }

 private:
  static constexpr std::uint64_t kNews = 1ULL << 63;
  std::uint64_t word_;
};

}  // namespace verbatim::fabric
