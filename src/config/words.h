#pragma once

#include <string_view>

/// Helpers for words in files and options.
namespace verbatim::config {

constexpr bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns `text` without spaces and tabs at both ends.
constexpr std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Returns the number of letters to insert, remove or replace in order to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace verbatim::config
