#pragma once

/// Steps that every request takes and that are functions for the reader's sake: they become part of
/// their caller. On the direct path calls cost as much as what is done between them.
#define VERBATIM_ALWAYS_INLINE [[gnu::always_inline]] inline
