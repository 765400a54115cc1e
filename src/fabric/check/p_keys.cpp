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
    std::map<unsigned, unsigned> times;  // By partition: in how many entries it is.
    for (const unsigned key : snapshot.nodes[place.node].ports[place.port].p_keys) {
      const unsigned partition = key & kDefaultPartition;
      if (partition == 0) continue;  // No entry.
      ++times[partition];
      ++((key & kFullMember) != 0 ? partitions[partition].full : partitions[partition].limited);
    }
    if (!times.contains(kDefaultPartition)) {
      findings.push_back(fmt::format(
          "{} is not in the default partition: it cannot ask the subnet manager for paths",
          text_of(snapshot, place)));
    }
    for (const auto& [partition, count] : times) {
      if (count == 1) continue;
      findings.push_back(fmt::format("{} has partition {:#06x} in {} entries of its P_Key table",
                                     text_of(snapshot, place), partition, count));
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
