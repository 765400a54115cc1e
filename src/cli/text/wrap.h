#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace verbatim::cli {

/// Breaks lines at blanks, so that none is longer than `width`, if its words allow it. Lines that
/// follow each other are one paragraph; empty lines, and lines that begin with a blank, stay.
std::string wrapped(std::string_view text, std::size_t width);

}  // namespace verbatim::cli
