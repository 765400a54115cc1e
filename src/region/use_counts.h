#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "region/adoption/mappings.h"

namespace verbatim::region {

/// How many users each part of a file has.
class UseCounts {
 public:
  void add(const PageRange& part);
  /// One user less; answers with what has none from now on. What nobody uses stays as it is.
  std::vector<PageRange> remove(const PageRange& part);
  bool empty() const { return counts_.empty(); }

 private:
  struct Counted {
    std::uint64_t end = 0;
    std::uint32_t users = 0;
  };
  void split(std::uint64_t at);

  std::map<std::uint64_t, Counted> counts_;  // By where it begins; what is missing has no user.
};

}  // namespace verbatim::region
