#pragma once

#include "base/time.h"

/// The clock of the times that lie in a fabric's memory: the machine's monotonic clock, which all
/// of the fabric's processes see alike. A program's own clock may be another one: it may run in a
/// time namespace (time_namespaces(7)), or under a library that shows it other times (faketime).
namespace verbatim::fabric {

/// Asks the kernel's vDSO, not the C library, and takes off what a time namespace adds.
TimeNs fabric_now();

/// True if this program's `monotonic_now` is another clock. Looked at once.
bool has_foreign_clock();

/// Times further ahead than these are of a program with another clock, and count as now. A packet
/// crosses all cables in less than
inline constexpr TimeNs kJourneyMax = kSecond;
/// and a link waits no longer to be served: the longest lifetime and HOQLife are 2.2 s.
inline constexpr TimeNs kWaitMax = 3 * kSecond;

constexpr bool is_of_another_clock(TimeNs at, TimeNs now, TimeNs ahead_max) {
  return at > now && at - now > ahead_max;
}

}  // namespace verbatim::fabric
