#pragma once

#include <dlfcn.h>

#define VERBATIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace verbatim::view {

/// Returns the next function of that name after this library. `Function` is a plain function type.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace verbatim::view
