#pragma once

#include <cstdint>

namespace verbatim::sim {

/// The simulation's only source of randomness (splitmix64). A seed gives the same run on every
/// machine, which the standard library's distributions do not guarantee.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  /// Returns 0 to bound - 1; `bound` is at least 1.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// Returns first to last, both included.
  std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    return first + below(last - first + 1);
  }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

}  // namespace verbatim::sim
