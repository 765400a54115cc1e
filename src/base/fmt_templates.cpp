/// Instances of the templates that fmt's headers only declare. Their names differ between versions
/// of fmt, so this file calls fmt's public functions header-only and is compiled without inlining:
/// the compiler then emits each instance that they use.
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
