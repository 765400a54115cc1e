#include "base/text/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace verbatim {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The Levenshtein distance, computed row by row.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> names,
                    std::size_t distance_max) {
  std::string found;
  std::size_t smallest = distance_max + 1;
  for (const std::string& name : names) {
    const std::size_t steps = distance(word, name);
    if (steps >= smallest || 2 * steps >= name.size()) continue;
    smallest = steps;
    found = name;
  }
  return found;
}

}  // namespace verbatim
