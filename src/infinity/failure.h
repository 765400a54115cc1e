#pragma once

#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

#include <infinity/utils/Error.h>

namespace infinity::detail {

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// Throws for an invalid argument.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw utils::Error(join("infinity: ", parts...));
}

/// Throws for a failed system call; the text ends with its reason.
template <class... Parts>
[[noreturn]] void fail(int code, const Parts&... parts) {
  throw utils::Error(join("infinity: ", parts..., " (", std::strerror(code), ")"), code);
}

/// Writes one line on standard error with one call.
template <class... Parts>
void warn(const Parts&... parts) {
  const std::string line = join("infinity: ", parts..., "\n");
  std::fputs(line.c_str(), stderr);
}

}  // namespace infinity::detail
