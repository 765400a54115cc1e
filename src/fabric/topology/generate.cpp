#include "fabric/topology/generate.h"

#include <cerrno>
#include <vector>

#include <fmt/format.h>

#include "fabric/topology/shapes/shapes.h"

namespace verbatim::fabric {
namespace {

constexpr unsigned kHostPortsMax = 2;  // As cards have.

/// Returns the hosts once for each of their ports, first port 1 of all: a cable takes the next one.
std::vector<std::uint32_t> add_hosts(Builder& builder, std::uint32_t count, unsigned ports) {
  std::vector<std::uint32_t> ends;
  ends.reserve(std::size_t{count} * ports + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    ends.push_back(builder.add_numbered(NodeKind::adapter, 'H', ports));
  }
  for (unsigned port = 2; port <= ports; ++port) {
    for (std::uint32_t i = 0; i < count; ++i) ends.push_back(ends[i]);
  }
  return ends;
}

/// The router takes part in both trees as one more host.
Result<void> add_two_subnets(Builder& builder, const GenerateOptions& options) {
  const std::uint32_t half = (options.hosts + 1) / 2;
  auto first = add_hosts(builder, half, options.host_ports);
  auto second = add_hosts(builder, options.hosts - half, options.host_ports);
  const std::uint32_t router = builder.add(NodeKind::router, "R1", 2);
  first.push_back(router);
  second.push_back(router);
  if (const auto added = add_fat_tree(builder, first, options); !added) return added;
  return add_fat_tree(builder, second, options);
}

Result<void> add_shape(Builder& builder, Shape shape, const GenerateOptions& options) {
  if (shape == Shape::two_subnets) return add_two_subnets(builder, options);
  const auto hosts = add_hosts(builder, options.hosts, options.host_ports);
  switch (shape) {
    case Shape::fat_tree:
      return add_fat_tree(builder, hosts, options);
    case Shape::dragonfly_plus:
      return add_dragonfly_plus(builder, hosts, options);
    case Shape::torus_2d:
      return add_torus(builder, hosts, options, 2);
    case Shape::torus_3d:
      return add_torus(builder, hosts, options, 3);
    case Shape::hypercube:
      return add_hypercube(builder, hosts, options);
    case Shape::full_mesh:
      return add_full_mesh(builder, hosts, options);
    case Shape::two_subnets:
      break;
  }
  return refuse(EINVAL, "unknown shape of a fabric");
}

/// So that no node of another fabric, made with another base and prefix, is the same.
void set_apart(Topology& topology, const GenerateOptions& options) {
  const std::uint64_t base = std::uint64_t{options.guid_base} << 32;
  for (Node& node : topology.nodes) {
    node.name.insert(0, options.name_prefix);
    node.guid |= base;
    node.system_image_guid |= base;
    for (PortIdentity& identity : node.identities) identity.guid |= base;
  }
}

}  // namespace

std::unexpected<Error> too_many_hosts(std::size_t hosts, std::size_t hosts_max,
                                      const GenerateOptions& options) {
  return refuse(EINVAL, fmt::format("{} hosts are more than {}, which is all that this shape holds "
                                    "with switches of {} ports: take switches of more ports",
                                    hosts / options.host_ports, hosts_max / options.host_ports,
                                    options.switch_ports));
}

Result<Topology> generate(Shape shape, const GenerateOptions& options) {
  const std::uint32_t hosts_min = shape == Shape::two_subnets ? 2 : 1;
  if (options.hosts < hosts_min || options.hosts > kNodesMax) {
    return refuse(EINVAL,
                  fmt::format("a fabric of this shape has {} to {} hosts", hosts_min, kNodesMax));
  }
  if (options.host_ports < 1 || options.host_ports > kHostPortsMax) {
    return refuse(EINVAL, fmt::format("a host has 1 to {} ports here", kHostPortsMax));
  }
  if (options.switch_ports < 4 || options.switch_ports > kPortsMax) {
    return refuse(EINVAL, fmt::format("a switch has 4 to {} ports here", kPortsMax));
  }
  if (options.oversubscription < 1 || options.oversubscription >= options.switch_ports) {
    return refuse(EINVAL, "the oversubscription is at least 1, and less than a switch has ports");
  }
  Builder builder(options.rate, options.length_m);
  if (const auto added = add_shape(builder, shape, options); !added) {
    return std::unexpected(added.error());
  }
  Topology topology = builder.take();
  if (topology.nodes.size() > kNodesMax) {
    return refuse(EINVAL,
                  fmt::format("{} hosts need so many switches that a subnet has no LIDs for all",
                              options.hosts));
  }
  set_apart(topology, options);
  if (const auto faults = faults_of(topology); !faults.empty()) {
    return refuse(EINVAL, text_of(faults.front()));
  }
  return topology;
}

}  // namespace verbatim::fabric
