#include "fabric/check/check.h"

#include <fmt/format.h>

namespace verbatim::fabric {

std::vector<std::string> check(const Snapshot& snapshot, std::span<const unsigned> service_levels) {
  std::vector<std::string> all;
  for (auto findings : {find_unreachable(snapshot), find_credit_loops(snapshot, service_levels),
                        find_unbalanced(snapshot), find_wrong_p_keys(snapshot)}) {
    if (findings.size() > kFindingsMax) {
      const std::size_t more = findings.size() - kFindingsMax;
      findings.resize(kFindingsMax);
      findings.push_back(fmt::format("... and {} more of this kind", more));
    }
    all.insert(all.end(), findings.begin(), findings.end());
  }
  return all;
}

}  // namespace verbatim::fabric
