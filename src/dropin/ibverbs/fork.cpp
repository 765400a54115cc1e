#include "dropin/ibverbs/verbs.h"

/// Fork. No page is pinned and no device writes to memory by itself, so parent and child have
/// separate copies as after any fork, with or without `ibv_fork_init`.

int ibv_fork_init() { return 0; }

ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

int ibv_dontfork_range(void*, std::size_t) { return 0; }

int ibv_dofork_range(void*, std::size_t) { return 0; }
