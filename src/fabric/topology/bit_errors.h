#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace verbatim::fabric {

/// A link with more errors would not stay up.
inline constexpr double kBitErrorRateMax = 1e-3;

/// The bit errors of one direction of a cable. They are independent of each
/// other, so the gaps between them are distributed exponentially. A value; the
/// same seed gives the same errors. All zeros: there are none.
class BitErrors {
 public:
  BitErrors() = default;
  /// `rate`: of all bits; 0 to kBitErrorRateMax.
  BitErrors(double rate, std::uint64_t seed) : mean_gap_(rate == 0 ? 0 : 1 / rate), random_(seed) {
    bits_left_ = next_gap();
  }

  /// Returns how many of the next `bits` are wrong.
  std::uint32_t errors_in(std::uint64_t bits) {
    if (mean_gap_ == 0) return 0;
    std::uint32_t errors = 0;
    std::uint64_t at = 0;
    for (; bits - at > bits_left_; ++errors) {
      at += bits_left_ + 1;
      bits_left_ = next_gap();
    }
    bits_left_ -= bits - at;
    return errors;
  }

 private:
  /// The right bits before the next wrong one.
  std::uint64_t next_gap() {
    constexpr double kUnit = 0x1p-53;
    const double uniform = (static_cast<double>(next_random() >> 11) + 1) * kUnit;  // (0, 1].
    constexpr double kLongest = 0x1p63;  // A longer gap is no 64-bit number, or infinite.
    return static_cast<std::uint64_t>(std::min(kLongest, -std::log(uniform) * mean_gap_));
  }
  /// SplitMix64.
  std::uint64_t next_random() {
    std::uint64_t z = random_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

  double mean_gap_ = 0;  // In bits; 0: no errors.
  std::uint64_t bits_left_ = 0;
  std::uint64_t random_ = 0;
};

}  // namespace verbatim::fabric
