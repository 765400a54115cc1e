#include "region/use_counts.h"

#include <iterator>
#include <utility>

namespace verbatim::region {

/// Splits the part that contains `at`, so that a part begins there.
void UseCounts::split(std::uint64_t at) {
  const auto after = counts_.upper_bound(at);
  if (after == counts_.begin()) return;
  const auto holder = std::prev(after);
  if (holder->first == at || holder->second.end <= at) return;
  counts_.emplace(at, holder->second);
  holder->second.end = at;
}

void UseCounts::add(const PageRange& part) {
  split(part.begin);
  split(part.end);
  std::uint64_t at = part.begin;
  for (auto next = counts_.lower_bound(at); at < part.end; ++next) {
    const bool is_gap = next == counts_.end() || next->first > at;
    if (is_gap) {
      const std::uint64_t end = next == counts_.end() ? part.end : std::min(next->first, part.end);
      next = counts_.emplace(at, Counted{end, 0}).first;
    }
    ++next->second.users;
    at = next->second.end;
  }
}

std::vector<PageRange> UseCounts::remove(const PageRange& part) {
  split(part.begin);
  split(part.end);
  std::vector<PageRange> unused;
  auto one = counts_.lower_bound(part.begin);
  while (one != counts_.end() && one->first < part.end) {
    if (--one->second.users > 0) {
      ++one;
      continue;
    }
    if (!unused.empty() && unused.back().end == one->first) {
      unused.back().end = one->second.end;
    } else {
      unused.push_back({one->first, one->second.end});
    }
    one = counts_.erase(one);
  }
  return unused;
}

}  // namespace verbatim::region
