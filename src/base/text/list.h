#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace verbatim {

/// The words of a list that commas separate; there are no empty ones.
inline std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

}  // namespace verbatim
