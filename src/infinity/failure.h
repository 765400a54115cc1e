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

/// The arguments are at fault.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw utils::Error(join("infinity: ", parts...));
}

/// The system refused: its reason ends the sentence.
template <class... Parts>
[[noreturn]] void fail(int code, const Parts&... parts) {
  throw utils::Error(join("infinity: ", parts..., " (", std::strerror(code), ")"), code);
}

/// One line on standard error, in one piece.
template <class... Parts>
void warn(const Parts&... parts) {
  const std::string line = join("infinity: ", parts..., "\n");
  std::fputs(line.c_str(), stderr);
}

}  // namespace infinity::detail
