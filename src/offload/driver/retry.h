#pragma once

#include <algorithm>

#include "base/time.h"

namespace verbatim::offload::driver {

/// When to try to connect again: at once, then after twice the time of before, up to kMost.
class Retry {
 public:
  static constexpr TimeNs kFirst = 20 * kMillisecond;
  static constexpr TimeNs kMost = kSecond;

  /// How long to wait before the next try.
  TimeNs next() {
    const TimeNs wait = wait_;
    wait_ = std::clamp(2 * wait_, kFirst, kMost);
    return wait;
  }

 private:
  TimeNs wait_ = 0;
};

}  // namespace verbatim::offload::driver
