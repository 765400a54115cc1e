#include "fabric/check/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace verbatim::fabric {
namespace {

using Findings = std::vector<std::string>;

void add(Findings& all, Findings findings) { std::ranges::move(findings, std::back_inserter(all)); }

}  // namespace

std::vector<std::string> check(const Snapshot& snapshot, const ServiceLevels& levels) {
  Findings unreachable;
  const Findings loops = find_credit_loops(snapshot, levels);
  Findings unbalanced;
  Findings p_keys;
  Findings levels_lost;
  for (const Snapshot& subnet : subnets_of(snapshot)) {
    add(unreachable, find_unreachable(subnet));
    add(unbalanced, find_unbalanced(subnet));
    add(p_keys, find_wrong_p_keys(subnet));
    add(levels_lost, find_lost_levels(subnet));
  }
  Findings all;
  for (Findings findings : {find_shared_guids(snapshot), unreachable, loops, unbalanced, p_keys,
                            levels_lost, snapshot.data_faults}) {
    if (findings.size() > kFindingsMax) {
      const std::size_t more = findings.size() - kFindingsMax;
      findings.resize(kFindingsMax);
      findings.push_back(fmt::format("... and {} more of this kind", more));
    }
    add(all, std::move(findings));
  }
  return all;
}

}  // namespace verbatim::fabric
