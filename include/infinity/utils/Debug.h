#pragma once

#include <stdio.h>
#include <stdlib.h>

/// For the program's own use, as in Infinity's headers: each takes printf's arguments. The program
/// may define `INFINITY_DEBUG_ON` and `INFINITY_ASSERT_ON`. The library itself throws
/// `infinity::utils::Error` instead.
#ifdef INFINITY_DEBUG_ON
#define INFINITY_DEBUG(...)       \
  {                               \
    fprintf(stdout, __VA_ARGS__); \
    fflush(stdout);               \
  }
#else
#define INFINITY_DEBUG(...) \
  {                         \
  }
#endif

#ifdef INFINITY_ASSERT_ON
#define INFINITY_ASSERT(condition, ...) \
  {                                     \
    if (!(condition)) {                 \
      fprintf(stdout, __VA_ARGS__);     \
      fflush(stdout);                   \
      exit(-1);                         \
    }                                   \
  }
#else
#define INFINITY_ASSERT(condition, ...) \
  {                                     \
  }
#endif
