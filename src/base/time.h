#pragma once

#include <cstdint>
#include <ctime>
#include <limits>

namespace verbatim {

/// A time or a duration in nanoseconds of the monotonic clock. Engines get it as an argument; only
/// the adapter, the agent and the commands read the clock.
using TimeNs = std::uint64_t;

inline constexpr TimeNs kMicrosecond = 1'000;
inline constexpr TimeNs kMillisecond = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;
inline constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();

/// Returns the time from `then` to `now`; 0 if `then` is later, for two threads may read the clock
/// in any order.
constexpr TimeNs elapsed(TimeNs then, TimeNs now) { return now > then ? now - then : 0; }

inline TimeNs monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<TimeNs>(now.tv_sec) * kSecond + static_cast<TimeNs>(now.tv_nsec);
}

}  // namespace verbatim
