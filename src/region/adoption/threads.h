#pragma once

#include "region/adoption/mappings.h"

/// Where the program's threads have their stacks and control blocks.
namespace verbatim::region {

/// Returns true if the pages, which are a part of `mapping`, have a thread's control block or
/// variables, or are below them in the same mapping, where its stack is. Also true if this cannot
/// be determined.
bool has_thread(const Mapping& mapping, const PageRange& pages);

/// Returns the calling thread's stack around here, wherever the program has it.
PageRange stack_of_this_thread();

}  // namespace verbatim::region
