#pragma once

#include <algorithm>

#include "base/time.h"
#include "sim/random.h"

namespace verbatim::sim {

/// A time in which a network delivers nothing: what is sent then is lost, or arrives when it ends.
struct Outage {
  TimeNs begin = kNever;
  TimeNs end = kNever;
  bool is_late = false;

  /// 1 ms to 100 s, that begin within `within` (at least a microsecond) from now on. Short ones are
  /// as likely as long ones.
  static Outage make(Random& random, TimeNs now, TimeNs within) {
    Outage outage;
    outage.begin = now + about(random, kMicrosecond, within);
    outage.end = outage.begin + about(random, kMillisecond, 100 * kSecond);
    outage.is_late = random.chance(0.5);
    return outage;
  }
  bool holds(TimeNs now) const { return now >= begin && now < end; }
  /// When that arrives which is sent now; kNever: it is lost.
  TimeNs arrival(TimeNs now, TimeNs delay) const {
    if (!holds(now)) return now + delay;
    return is_late ? end + delay : kNever;
  }

  /// Each order of magnitude is as likely as the others.
  static TimeNs about(Random& random, TimeNs from, TimeNs to) {
    unsigned doublings = 0;
    while (from << (doublings + 1) <= to) ++doublings;
    const TimeNs first = from << random.below(doublings + 1);
    return std::min(random.between(first, 2 * first - 1), to);
  }
};

}  // namespace verbatim::sim
