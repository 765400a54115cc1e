#include <algorithm>
#include <vector>

#include "fabric/topology/shapes/shapes.h"

namespace verbatim::fabric {
namespace {

/// How the ports of the switches are shared out.
struct Plan {
  std::size_t ports;    // Of a switch.
  std::size_t uplinks;  // Of a leaf.
  std::size_t leaf_hosts;
  std::size_t half;        // Of a switch in the middle: to either side.
  std::size_t leaves_min;  // A host's ports have a leaf each.

  explicit Plan(const GenerateOptions& options)
      : ports(options.switch_ports),
        uplinks(std::max<std::size_t>(ports / (options.oversubscription + 1), 1)),
        leaf_hosts(std::min(uplinks * options.oversubscription, ports - uplinks)),
        half(ports / 2),
        leaves_min(options.host_ports) {}
  std::size_t pod_hosts() const { return half * leaf_hosts; }
};

/// "L7": the next leaf, spine or switch in the middle.
std::uint32_t add_switch(Builder& builder, char letter, std::size_t ports) {
  return builder.add_numbered(NodeKind::switch_node, letter, static_cast<unsigned>(ports));
}

class FatTree {
 public:
  FatTree(Builder& builder, const GenerateOptions& options) : builder_(builder), plan_(options) {}

  /// Connects `up` from each of `lower`, in turn, to as many new switches as these need.
  void add_top(const std::vector<std::uint32_t>& lower, std::size_t up) {
    const std::size_t count = divide_up(lower.size() * up, plan_.ports);
    std::vector<std::uint32_t> tops;
    for (std::size_t i = 0; i < count; ++i) tops.push_back(add_switch(builder_, 'S', plan_.ports));
    std::size_t next = 0;
    for (const std::uint32_t each : lower) {
      for (std::size_t i = 0; i < up; ++i) builder_.connect(each, tops[next++ % count]);
    }
  }

  std::vector<std::uint32_t> add_leaves(Ends ends) {
    const std::size_t count = std::max(divide_up(ends.size(), plan_.leaf_hosts), plan_.leaves_min);
    std::vector<std::uint32_t> leaves;
    for (std::size_t i = 0; i < count; ++i) {
      leaves.push_back(add_switch(builder_, 'L', plan_.ports));
      for (const std::uint32_t end : part_of(ends, i, count)) builder_.connect(leaves.back(), end);
    }
    return leaves;
  }

  void add(Ends ends) {
    if (ends.size() <= plan_.ports && plan_.leaves_min == 1) {
      const std::uint32_t only = add_switch(builder_, 'L', plan_.ports);
      for (const std::uint32_t end : ends) builder_.connect(only, end);
      return;
    }
    if (ends.size() <= plan_.ports * plan_.leaf_hosts)
      return add_top(add_leaves(ends), plan_.uplinks);
    add_three_levels(ends);
  }

 private:
  /// Pods of leaves, each leaf connected to each middle switch of its pod; the middle switches of
  /// one place in all pods have the same switches above them.
  void add_three_levels(Ends ends) {
    const std::size_t pods = divide_up(ends.size(), plan_.pod_hosts());
    std::vector<std::vector<std::uint32_t>> middles(plan_.uplinks);
    for (std::size_t pod = 0; pod < pods; ++pod) {
      for (auto& place : middles) place.push_back(add_switch(builder_, 'M', plan_.ports));
      for (const std::uint32_t leaf : add_leaves(part_of(ends, pod, pods))) {
        for (auto& place : middles) builder_.connect(leaf, place.back());
      }
    }
    for (const auto& place : middles) add_top(place, plan_.half);
  }

  Builder& builder_;
  Plan plan_;
};

}  // namespace

Result<void> add_fat_tree(Builder& builder, Ends ends, const GenerateOptions& options) {
  const Plan plan(options);
  const std::size_t hosts_max = plan.ports * plan.pod_hosts();
  if (ends.size() > hosts_max) return too_many_hosts(ends.size(), hosts_max, options);
  FatTree(builder, options).add(ends);
  return {};
}

Result<void> add_dragonfly_plus(Builder& builder, Ends ends, const GenerateOptions& options) {
  const std::size_t half = options.switch_ports / 2;
  const std::size_t group_hosts_max = half * half;
  const std::size_t hosts_max = group_hosts_max * (group_hosts_max + 1);
  if (ends.size() > hosts_max) return too_many_hosts(ends.size(), hosts_max, options);
  std::size_t groups = std::max<std::size_t>(divide_up(ends.size(), group_hosts_max), 2);
  if (ends.size() < groups) groups = ends.size();
  // Leaves and spines of a group, as many of each; all groups are alike.
  const std::size_t leaves = divide_up(divide_up(ends.size(), groups), half);
  std::vector<std::vector<std::uint32_t>> spines(groups);
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t i = 0; i < leaves; ++i) {
      spines[group].push_back(add_switch(builder, 'S', options.switch_ports));
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < leaves; ++i) {
      const std::uint32_t leaf = add_switch(builder, 'L', options.switch_ports);
      for (const std::uint32_t end : part_of(part_of(ends, group, groups), i, leaves)) {
        builder.connect(leaf, end);
      }
      for (std::size_t up = 0; up < half; ++up)
        builder.connect(leaf, spines[group][next++ % leaves]);
    }
  }
  if (groups < 2) return {};
  const std::size_t links = leaves * half / (groups - 1);  // Of each two groups.
  if (links == 0) return too_many_hosts(ends.size(), leaves * half * groups, options);
  std::vector<std::size_t> next(groups);
  for (std::size_t a = 0; a < groups; ++a) {
    for (std::size_t b = a + 1; b < groups; ++b) {
      for (std::size_t i = 0; i < links; ++i) {
        builder.connect(spines[a][next[a]++ % leaves], spines[b][next[b]++ % leaves]);
      }
    }
  }
  return {};
}

}  // namespace verbatim::fabric
