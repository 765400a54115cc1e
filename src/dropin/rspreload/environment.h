#pragma once

namespace verbatim::rspreload {

/// Returns true if RDMAV_FORK_SAFE or IBV_FORK_SAFE is set, for TCP sockets: they start as TCP's.
bool starts_as_tcp(int type, int protocol);

/// Programs clear their environment (nginx does), but the libraries look into it at their first
/// call, perhaps later: puts back what they look for, as it was when the program started.
void restore_environment();

}  // namespace verbatim::rspreload
