#include <algorithm>
#include <array>
#include <vector>

#include "fabric/topology/shapes/shapes.h"

namespace verbatim::fabric {
namespace {

std::vector<std::uint32_t> add_switches(Builder& builder, Ends ends, std::size_t count,
                                        unsigned ports) {
  std::vector<std::uint32_t> switches;
  for (std::size_t i = 0; i < count; ++i) {
    switches.push_back(builder.add_numbered(NodeKind::switch_node, 'S', ports));
    for (const std::uint32_t end : part_of(ends, i, count)) builder.connect(switches.back(), end);
  }
  return switches;
}

/// The least whole number whose `root`-th power is at least `count`.
std::size_t root_up(std::size_t count, unsigned root) {
  std::size_t side = 1;
  const auto power = [root](std::size_t base) {
    std::size_t product = 1;
    for (unsigned i = 0; i < root; ++i) product *= base;
    return product;
  };
  while (power(side) < count) ++side;
  return side;
}

}  // namespace

Result<void> add_torus(Builder& builder, Ends ends, const GenerateOptions& options,
                       unsigned dimensions) {
  // Half of the ports for hosts, or fewer where the neighbours need more than the other half.
  const unsigned neighbours = 2 * dimensions;
  if (options.switch_ports <= neighbours) return too_many_hosts(ends.size(), 0, options);
  const std::size_t hosts = std::min(options.switch_ports / 2, options.switch_ports - neighbours);
  std::array<std::size_t, 3> sides{1, 1, 1};
  std::size_t left = divide_up(ends.size(), hosts);
  for (unsigned i = 0; i < dimensions; ++i) {
    sides[i] = root_up(left, dimensions - i);
    left = divide_up(left, sides[i]);
  }
  const std::size_t count = sides[0] * sides[1] * sides[2];
  const auto switches = add_switches(builder, ends, count, options.switch_ports);
  std::size_t stride = 1;
  for (const std::size_t side : sides) {
    for (std::size_t i = 0; i < count && side > 1; ++i) {
      const std::size_t at = i / stride % side;
      if (at + 1 < side) {
        builder.connect(switches[i], switches[i + stride]);
      } else if (side > 2) {  // Two that are neighbours already need no second cable.
        builder.connect(switches[i], switches[i - at * stride]);
      }
    }
    stride *= side;
  }
  return {};
}

Result<void> add_hypercube(Builder& builder, Ends ends, const GenerateOptions& options) {
  std::size_t hosts_max = 0;
  for (unsigned bits = 0; bits < std::min(options.switch_ports, 16u); ++bits) {
    const std::size_t count = std::size_t{1} << bits;
    const std::size_t hosts = bits == 0
                                  ? options.switch_ports
                                  : std::min(options.switch_ports / 2, options.switch_ports - bits);
    hosts_max = std::max(hosts_max, count * hosts);
    if (count * hosts < ends.size()) continue;
    const auto switches = add_switches(builder, ends, count, options.switch_ports);
    for (unsigned bit = 0; bit < bits; ++bit) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t other = i ^ std::size_t{1} << bit;
        if (i < other) builder.connect(switches[i], switches[other]);
      }
    }
    return {};
  }
  return too_many_hosts(ends.size(), hosts_max, options);
}

Result<void> add_full_mesh(Builder& builder, Ends ends, const GenerateOptions& options) {
  std::size_t hosts_max = 0;
  for (std::size_t count = 1; count <= options.switch_ports; ++count) {
    const std::size_t hosts = count * (options.switch_ports - (count - 1));
    hosts_max = std::max(hosts_max, hosts);
    if (hosts < ends.size()) continue;
    const auto switches = add_switches(builder, ends, count, options.switch_ports);
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; b < count; ++b) builder.connect(switches[a], switches[b]);
    }
    return {};
  }
  return too_many_hosts(ends.size(), hosts_max, options);
}

}  // namespace verbatim::fabric
