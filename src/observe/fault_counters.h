#pragma once

#include <array>
#include <type_traits>

#include "observe/counters.h"

/// Faults that `verbatim fault` injected into the packets of one program.
namespace verbatim::observe {

struct FaultCounters {
  Counter lost;
  Counter delayed;
  Counter duplicated;
  Counter reordered;
  Counter corrupted;
  Counter overflowed;  // Lost because too many packets were delayed.
};

inline constexpr std::array kFaultCounters = std::to_array<CounterName<FaultCounters>>({
    {"lost", &FaultCounters::lost},
    {"delayed", &FaultCounters::delayed},
    {"duplicated", &FaultCounters::duplicated},
    {"reordered", &FaultCounters::reordered},
    {"corrupted", &FaultCounters::corrupted},
    {"overflowed", &FaultCounters::overflowed},
});

static_assert(kFaultCounters.size() * sizeof(Counter) == sizeof(FaultCounters));
static_assert(std::is_standard_layout_v<FaultCounters>);

}  // namespace verbatim::observe
