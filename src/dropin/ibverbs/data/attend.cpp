#include "dropin/ibverbs/program.h"

/// For our own daemons (ulp/ipoib/driver/link.cpp), which look for it by name: the calling thread
/// attends to what comes. Returns the descriptor on which it sleeps, or -1.
extern "C" __attribute__((visibility("default"))) int verbatim_attend();
int verbatim_attend() {
  const auto own = verbatim::dropin::program();
  return own ? (*own)->adapter->progress().attend() : -1;
}
