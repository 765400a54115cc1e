#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cxxabi.h>

/// The boundary to C: what our functions throw, want of memory above all, ends here as an errno
/// value. `exports.txt` has a row for each exported function, from which `generate_exports.py`
/// makes the guards; functions that C code calls by pointer are `kGuarded`.
namespace verbatim::dropin {

/// How a C function says that it has failed.
enum class Failing : std::uint8_t {
  errno_value,  // It returns an errno value,
  negative,     // or its negative,
  minus_one,    // or -1, and errno is set,
  null,         // or a null pointer or 0, and errno is set.
  nothing,      // It returns nothing.
};

/// In a handler only: returns the errno value of what was thrown, which it logs under the call's
/// name.
int thrown(const char* call) noexcept;

template <Failing failing, typename Returned>
Returned failed(int code) {
  if constexpr (failing == Failing::errno_value) {
    return static_cast<Returned>(code);
  } else if constexpr (failing == Failing::negative) {
    return static_cast<Returned>(-code);
  } else {
    errno = code;
    if constexpr (failing == Failing::minus_one) return static_cast<Returned>(-1);
    if constexpr (failing == Failing::null) return Returned{};
  }
}

/// Returns what `work()` returns, or the failure that what it throws stands for. Costs nothing if
/// nothing is thrown.
template <Failing failing, typename Work>
[[gnu::always_inline]] inline auto guarded(const char* call, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const abi::__forced_unwind&) {
    throw;  // pthread_cancel(3) ends the thread.
  } catch (...) {
    return failed<failing, decltype(work())>(thrown(call));
  }
}

/// Undoes what a function has begun, unless it comes to `keep`: what follows may throw.
template <typename Undo>
class Rollback {
 public:
  explicit Rollback(Undo undo) : undo_(std::move(undo)) {}
  ~Rollback() {
    if (undoes_) undo_();
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void keep() { undoes_ = false; }

 private:
  Undo undo_;
  bool undoes_ = true;
};

/// The text of a call's name as a template's argument.
template <std::size_t size>
struct Name {
  constexpr Name(const char (&name)[size]) { std::copy_n(name, size, text); }  // NOLINT: implicit.
  char text[size];
};

template <Name name, auto function>
struct Guarded;
template <Name name, typename Returned, typename... Arguments, Returned (*function)(Arguments...)>
struct Guarded<name, function> {
  static Returned call(Arguments... arguments) {
    constexpr Failing kFailing = std::is_void_v<Returned>      ? Failing::nothing
                                 : std::is_pointer_v<Returned> ? Failing::null
                                                               : Failing::errno_value;
    return guarded<kFailing>(name.text, [&] { return function(arguments...); });
  }
};
/// The function as C code may call it: it returns a pointer, or an errno value, or nothing.
template <Name name, auto function>
inline constexpr auto kGuarded = &Guarded<name, function>::call;

// For generate_exports.py: what a function of the C interface returns and takes.
template <typename Function>
struct Signature;
template <typename R, typename... Arguments>
struct Signature<R(Arguments...)> {
  using Returned = R;
  template <std::size_t index>
  using Argument = std::tuple_element_t<index, std::tuple<Arguments...>>;
};

}  // namespace verbatim::dropin
