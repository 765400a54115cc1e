#pragma once

#include <cstdint>

#include <sys/syscall.h>
#include <unistd.h>

#include "base/time.h"

namespace verbatim {

/// Asks Linux to let the calling thread, and those that it starts, run as soon as they wake, for so
/// short a time at once: for daemons, which have little to do while programs spin. Every user may;
/// before Linux 6.12 nothing changes.
inline void ask_for_short_slices(TimeNs slice = 100 * kMicrosecond) {
  /// The kernel's `struct sched_attr`, of its first version.
  struct Attributes {
    std::uint32_t size;
    std::uint32_t policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime_ns;
    std::uint64_t deadline_ns;
    std::uint64_t period_ns;
  } attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  constexpr std::uint32_t kOrdinary = 0;  // SCHED_OTHER, in which the runtime is the slice.
  if (attributes.policy != kOrdinary) return;
  attributes.runtime_ns = slice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace verbatim
