#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Number of users of each part of a file.
class UseCounts {
 public:
  void add(const PageRange& part);
  /// Decrements the counts in `part`; returns the ranges that have no user left. Ranges without
  /// users are skipped.
  std::vector<PageRange> remove(const PageRange& part);
  bool empty() const { return counts_.empty(); }

 private:
  struct Counted {
    std::uint64_t end = 0;
    std::uint32_t users = 0;
  };
  void split(std::uint64_t at);

  std::map<std::uint64_t, Counted> counts_;  // By start; a range that is missing has no user.
};

}  // namespace verbatim::region
