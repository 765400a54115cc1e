#pragma once

#include <cstdio>
#include <cstdlib>

/// An assertion that stays on in release builds. It fails only on a bug in Verbatim, never on what
/// a peer or a caller sent.
#define VERBATIM_ASSERT(condition)                                                        \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      std::fprintf(stderr, "verbatim: bug: %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
