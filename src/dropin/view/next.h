#pragma once

#define VERBATIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace verbatim::view {

/// A function of the C library that this library stands before.
struct NextCall {
  const char* name;
  void* function;
};

/// Finds the next function of that name after this library.
void* find(NextCall& call);

/// All are found when the library is loaded: looking for one takes the loader's lock, which a
/// forked child or a signal handler may find locked for ever. A call that comes earlier, by the
/// constructor of another library, finds its own.
template <typename Function>
Function* function_of(NextCall& call) {
  void* const found = __atomic_load_n(&call.function, __ATOMIC_RELAXED);
  return reinterpret_cast<Function*>(found != nullptr ? found : find(call));
}

}  // namespace verbatim::view

/// Declares `VARIABLE`, the next function of this name and type.
#define VERBATIM_NEXT(VARIABLE, NAME, ...)                                            \
  [[gnu::section("verbatim_next"),                                                    \
    gnu::used]] static verbatim::view::NextCall next_of_##VARIABLE = {NAME, nullptr}; \
  auto* const VARIABLE = verbatim::view::function_of<__VA_ARGS__>(next_of_##VARIABLE)
