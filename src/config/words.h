#pragma once

#include <string_view>

/// What words in files and options are made of.
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

/// Returns how many letters one has to insert, remove or replace to make `b` of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace verbatim::config
