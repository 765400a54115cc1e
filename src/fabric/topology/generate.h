#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "fabric/topology/generate_options.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

enum class Shape : std::uint8_t {
  fat_tree,
  dragonfly_plus,
  torus_2d,
  torus_3d,
  hypercube,
  full_mesh,
  two_subnets,
};

struct ShapeFacts {
  std::string_view name;
  std::string_view description;
};

/// In the order of `Shape`.
inline constexpr std::array<ShapeFacts, 7> kShapes{{
    {"fat-tree", "one to three levels of switches, hosts at the leaves"},
    {"dragonfly+", "groups of leaves and spines, every two groups connected"},
    {"torus-2d", "switches in a rectangle whose edges meet"},
    {"torus-3d", "switches in a box whose faces meet"},
    {"hypercube", "each switch connected to all whose numbers differ by one bit"},
    {"full-mesh", "each switch connected to every other"},
    {"two-subnets", "two fat trees, and a router between them"},
}};

/// A fabric of hosts H1 to HN that has as few switches as its shape allows. EINVAL in words if
/// there can be none: too many hosts for switches of so few ports.
Result<Topology> generate(Shape shape, const GenerateOptions& options);

}  // namespace verbatim::fabric
