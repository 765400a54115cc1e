#include "cli/text/wrap.h"

#include <algorithm>

namespace verbatim::cli {
namespace {

/// Appends a line's words to the text's last line, or to new ones.
void append_words(std::string& text, std::size_t& column, std::string_view line,
                  std::size_t width) {
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    const auto word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (word.empty()) continue;
    const bool is_first = column == 0;
    const bool fits = is_first || column + 1 + word.size() <= width;
    if (!is_first) text += fits ? ' ' : '\n';
    column = fits && !is_first ? column + 1 + word.size() : word.size();
    text += word;
  }
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t column = 0;  // Of the paragraph's last line; 0: none is begun.
  while (true) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    const bool stays = line.empty() || line.front() == ' ';
    if (stays) {
      if (column != 0) out += '\n';
      out += line;
      column = 0;
    } else {
      append_words(out, column, line, width);
    }
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
    if (stays) out += '\n';
  }
}

}  // namespace verbatim::cli
