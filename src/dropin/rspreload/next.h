#pragma once

#include <dlfcn.h>

/// What libc does: the functions that ours stand before.
namespace verbatim::rspreload {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace verbatim::rspreload

/// libc's function of the same name.
#define VERBATIM_NEXT(function) (verbatim::rspreload::next<decltype(::function)>(#function))
