#pragma once

#include <cstdint>

#include "cm/messages.h"

namespace verbatim::cm {

/// Local communication ids: the slot in the upper 10 bits, and a counter with a random start below.
/// So an id repeats only after four million connections, and a program does not use the ids of an
/// earlier program in its slot.
class Identifiers {
 public:
  static constexpr unsigned kNumberBits = 22;

  Identifiers(std::uint16_t slot, std::uint64_t seed)
      : slot_(std::uint32_t{slot} << kNumberBits), number_(scrambled(seed)) {}

  /// Returns the next id, never 0. The caller skips ids that are in use.
  ConnectionId next() {
    do {
      number_ = (number_ + 1) & kNumberMask;
    } while (number_ == 0);
    return static_cast<ConnectionId>(slot_ | number_);
  }

 private:
  static constexpr std::uint32_t kNumberMask = (1u << kNumberBits) - 1;
  static std::uint32_t scrambled(std::uint64_t seed) {
    return static_cast<std::uint32_t>(seed * 0x9e3779b97f4a7c15 >> 40) & kNumberMask;
  }

  std::uint32_t slot_;
  std::uint32_t number_;
};

}  // namespace verbatim::cm
