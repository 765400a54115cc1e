#include "dropin/view/next.h"

#include <dlfcn.h>

namespace verbatim::view {

// The linker's names for the first call of the section, and for the place behind its last one.
extern "C" [[gnu::visibility("hidden")]] NextCall __start_verbatim_next[];
extern "C" [[gnu::visibility("hidden")]] NextCall __stop_verbatim_next[];

void* find(NextCall& call) {
  void* const function = dlsym(RTLD_NEXT, call.name);
  __atomic_store_n(&call.function, function, __ATOMIC_RELAXED);
  return function;
}

namespace {

[[gnu::constructor]] void find_all() {
  for (NextCall* call = __start_verbatim_next; call != __stop_verbatim_next; ++call) find(*call);
}

}  // namespace
}  // namespace verbatim::view
