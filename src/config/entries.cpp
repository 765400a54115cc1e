#include "config/entries.h"

#include <algorithm>

#include <fmt/format.h>

#include "config/words.h"

namespace verbatim::config {
namespace {

/// Returns the line up to a '#' or ';' that begins it or follows a blank.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool begins = i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t';
    if (begins && (line[i] == '#' || line[i] == ';')) return line.substr(0, i);
  }
  return line;
}

bool is_key(std::string_view key) {
  return !key.empty() &&
         std::ranges::all_of(key, [](char c) { return is_alphanumeric(c) || c == '_'; });
}

/// Returns the text for a message, with '?' for all but printable ASCII.
std::string shown(std::string_view text) {
  constexpr std::size_t kShownMax = 40;
  std::string cut(text.substr(0, kShownMax));
  std::ranges::replace_if(cut, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kShownMax ? cut + "..." : cut;
}

class Reader {
 public:
  void line(std::string_view line) {
    ++number_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() > kLineBytesMax) {
      return fault(
          fmt::format("{} bytes are too long for a line: at most {}", line.size(), kLineBytesMax));
    }
    const std::string_view content = trimmed(without_comment(line));
    if (content.empty()) return;
    const bool is_text =
        std::ranges::all_of(content, [](char c) { return c == '\t' || (c >= ' ' && c <= '~'); });
    if (!is_text) return fault("a character that is not printable ASCII");
    if (content.front() == '[') {
      return fault(
          fmt::format("'{}': there are no sections, for a file is of one node", shown(content)));
    }
    setting(content);
  }

  Entries take() { return std::move(entries_); }

 private:
  void setting(std::string_view content) {
    const auto sign = content.find('=');
    const std::string_view key = trimmed(content.substr(0, sign));
    if (sign == std::string_view::npos || !is_key(key)) {
      return fault(fmt::format("'{}' is not 'key = value'", shown(content)));
    }
    const std::string_view value = trimmed(content.substr(sign + 1));
    if (value.empty()) {
      return fault(fmt::format("{} has no value: remove the line to leave it as it is", key));
    }
    const auto first = std::ranges::find(entries_.entries, key, &Entry::key);
    if (first != entries_.entries.end()) {
      return fault(fmt::format("{} is set in line {} already", shown(key), first->line));
    }
    if (entries_.entries.size() == kEntriesMax) {
      return fault(fmt::format("more than {} keys", kEntriesMax));
    }
    entries_.entries.push_back({std::string(key), std::string(value), number_});
  }

  void fault(std::string text) {
    if (entries_.faults.size() < kFaultsMax) entries_.faults.push_back({number_, std::move(text)});
  }

  Entries entries_;
  unsigned number_ = 0;
};

}  // namespace

Entries parse_entries(std::string_view text) {
  if (text.size() > kFileBytesMax) {
    return {.entries = {},
            .faults = {{0, fmt::format("{} bytes are too many: a node's file has at most {}",
                                       text.size(), kFileBytesMax)}}};
  }
  Reader reader;
  while (!text.empty()) {
    const auto end = text.find('\n');
    reader.line(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.take();
}

}  // namespace verbatim::config
