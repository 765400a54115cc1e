#pragma once

#include <dlfcn.h>

/// Access to libc's functions that this library's functions hide.
namespace verbatim::rdspreload {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace verbatim::rdspreload

/// libc's function of this name.
#define VERBATIM_NEXT(function) (verbatim::rdspreload::next<decltype(::function)>(#function))
