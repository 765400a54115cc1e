#pragma once

#include <dlfcn.h>

/// What libc does: the functions that ours stand before.
namespace verbatim::rspreload {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Whether this thread is inside an rsocket call: what it calls then is meant for libc.
bool inside();

/// Marks the thread while it is inside.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
};

/// Whether the descriptor is an rsocket, and the call is the program's.
bool is_ours(int fd);

}  // namespace verbatim::rspreload

/// libc's function of the same name.
#define VERBATIM_NEXT(function) (verbatim::rspreload::next<decltype(::function)>(#function))
