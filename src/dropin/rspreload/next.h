#pragma once

#include <dlfcn.h>

/// Access to libc's functions that this library's functions hide.
namespace verbatim::rspreload {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace verbatim::rspreload

/// libc's function of this name.
#define VERBATIM_NEXT(function) (verbatim::rspreload::next<decltype(::function)>(#function))
