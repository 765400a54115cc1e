#pragma once

#include <cstdint>
#include <span>

#include "base/error.h"
#include "fabric/topology/builder.h"
#include "fabric/topology/generate_options.h"

/// One function for each way to connect hosts. Each adds switches, and connects the nodes `ends`,
/// of which there is at least one, to them in this order.
namespace verbatim::fabric {

using Ends = std::span<const std::uint32_t>;

Result<void> add_fat_tree(Builder& builder, Ends ends, const GenerateOptions& options);
Result<void> add_dragonfly_plus(Builder& builder, Ends ends, const GenerateOptions& options);
Result<void> add_torus(Builder& builder, Ends ends, const GenerateOptions& options,
                       unsigned dimensions);
Result<void> add_hypercube(Builder& builder, Ends ends, const GenerateOptions& options);
Result<void> add_full_mesh(Builder& builder, Ends ends, const GenerateOptions& options);

/// The part of `ends` that belongs to group `index` of `groups`: they differ by one at most.
inline Ends part_of(Ends ends, std::size_t index, std::size_t groups) {
  const std::size_t first = ends.size() * index / groups;
  return ends.subspan(first, ends.size() * (index + 1) / groups - first);
}
inline std::size_t divide_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }

std::unexpected<Error> too_many_hosts(std::size_t hosts, std::size_t hosts_max,
                                      const GenerateOptions& options);

}  // namespace verbatim::fabric
