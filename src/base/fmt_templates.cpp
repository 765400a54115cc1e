/// The instances of templates that fmt's headers only declare to other files. Which these are, and
/// what they are called, differs from version to version of fmt: this file calls fmt's public
/// functions header-only, and is compiled without inlining, so that the compiler emits every
/// instance that they reach.
#define FMT_HEADER_ONLY
#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace verbatim {
namespace {

[[gnu::used]] std::string format(fmt::string_view text, fmt::format_args arguments) {
  return fmt::vformat(text, arguments);
}

[[gnu::used]] void print(std::FILE* file, fmt::string_view text, fmt::format_args arguments) {
  fmt::vprint(file, text, arguments);
}

}  // namespace
}  // namespace verbatim
