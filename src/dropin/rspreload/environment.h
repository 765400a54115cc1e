#pragma once

namespace verbatim::rspreload {

/// Programs clear their environment (nginx does), but the libraries look into it at their first
/// call, perhaps later: puts back what they look for, as it was when the program started.
void restore_environment();

}  // namespace verbatim::rspreload
