#pragma once

/// For short functions on the path of each request: the compiler inlines them. On the direct path a
/// call costs as much as the work of the function.
#define VERBATIM_ALWAYS_INLINE [[gnu::always_inline]] inline
