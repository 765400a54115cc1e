#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

/// How programs that measure a daemon's engines end: at the first refusal, with its reason.
namespace bench {

[[noreturn]] inline void fail(const std::string& words) {
  fmt::print(stderr, "{}: {}\n", program_invocation_short_name, words);
  std::exit(1);
}

template <typename T>
T expect(verbatim::Result<T> result) {
  if (!result) fail(result.error().text);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace bench
