#pragma once

#include <string>

namespace verbatim::cli {

/// The word of LD_PRELOAD for a library. Blanks end words there: a library whose path has one is
/// named without its folder, which must be in LD_LIBRARY_PATH then.
inline std::string preload_word(const std::string& path) {
  return path.find(' ') == std::string::npos ? path : path.substr(path.rfind('/') + 1);
}

}  // namespace verbatim::cli
