#pragma once

#include <string>
#include <vector>

#include "fabric/data/image/image.h"

/// Does the memory of a fabric agree with itself?
namespace verbatim::fabric {

/// Credits, queues, timers, slots and steering tables that contradict each other, a sentence each.
/// Movers that are at work make such contradictions, too; theirs do not last.
std::vector<std::string> audit(const Image& image);

}  // namespace verbatim::fabric
