#pragma once

#include "base/error.h"

namespace verbatim::region {

/// Calls `work(argument)` while all other threads of this process are stopped, as a debugger stops
/// them: at the end of their system calls, which begin anew afterwards. So nothing accesses memory
/// meanwhile, not even the kernel for a thread, and whoever slept in futex(2) looks the word up
/// again. `work` runs in a process of its own that shares this one's memory; it makes bare system
/// calls only, because other threads may hold any lock, and returns 0 or a negative errno.
///
/// Fails with EBUSY if a thread cannot be stopped: it waits for a child of vfork(2) or in the
/// kernel, or a debugger has it; and with EPERM where ptrace(2) is forbidden. Then `work` was not
/// called. What a program may notice is a short count of a write(2) that was blocked, as after
/// SIGSTOP and SIGCONT.
Result<void> run_alone(long (*work)(void*), void* argument);

}  // namespace verbatim::region
