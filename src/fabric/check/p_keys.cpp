#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "fabric/check/check.h"

namespace verbatim::fabric {
namespace {

constexpr unsigned kFullMember = 0x8000;
constexpr unsigned kDefaultPartition = 0x7fff;

struct Members {
  unsigned full = 0;
  unsigned limited = 0;
};

}  // namespace

std::vector<std::string> find_wrong_p_keys(const Snapshot& snapshot) {
  std::vector<std::string> findings;
  std::map<unsigned, Members> partitions;
  const Cables cables(snapshot);
  for (const Direction source : sources(snapshot)) {
    const PortPlace place = cables.start(source);
    // By key: in how many entries it is. A port may be a full member and a limited one at once
    // (opensm's allow_both_pkeys).
    std::map<unsigned, unsigned> times;
    for (const unsigned key : snapshot.nodes[place.node].ports[place.port].p_keys) {
      const unsigned partition = key & kDefaultPartition;
      if (partition == 0) continue;  // No entry.
      ++times[key];
      ++((key & kFullMember) != 0 ? partitions[partition].full : partitions[partition].limited);
    }
    if (!times.contains(kDefaultPartition) && !times.contains(kDefaultPartition | kFullMember)) {
      findings.push_back(fmt::format(
          "{} is not in the default partition: it cannot ask the subnet manager for paths",
          text_of(snapshot, place)));
    }
    for (const auto& [key, count] : times) {
      if (count == 1) continue;
      findings.push_back(fmt::format("{} has P_Key {:#06x} in {} entries of its table",
                                     text_of(snapshot, place), key, count));
    }
  }
  for (const auto& [partition, members] : partitions) {
    if (members.full != 0 || members.limited < 2) continue;
    findings.push_back(
        fmt::format("all {} members of partition {:#06x} are limited: none may talk to another",
                    members.limited, partition));
  }
  return findings;
}

}  // namespace verbatim::fabric
