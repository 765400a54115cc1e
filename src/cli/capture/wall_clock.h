#pragma once

#include <ctime>

#include "base/time.h"

namespace verbatim::cli {

/// Nanoseconds since 1970, which are the times of captured packets.
inline TimeNs wall_clock_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<TimeNs>(now.tv_sec) * kSecond + static_cast<TimeNs>(now.tv_nsec);
}

}  // namespace verbatim::cli
