#pragma once

#include <vector>

#include "fabric/drawing/drawing.h"

namespace verbatim::fabric::drawing {

struct Point {
  double x = 0;
  double y = 0;
  friend bool operator==(const Point&, const Point&) = default;
};

enum class Form : std::uint8_t {
  rows,    // Fat trees: switches by their distance from hosts, hosts at the bottom.
  circle,  // Every switch has hosts: rings, meshes, hypercubes.
  grid,    // The same, with many switches: tori.
};

/// A curve between two switches of a row lies at most so high above it.
inline constexpr double kBendMax = 100;

/// Where nodes are.
struct Layout {
  Form form{};
  std::vector<Point> places;  // As `Drawing::nodes`.
  double width = 0;
  double height = 0;
};

Form form_of(const Drawing& drawing);
Layout layout_of(const Drawing& drawing);

/// Places of each node's neighbours in `Drawing::nodes`.
std::vector<std::vector<std::uint32_t>> neighbors_of(const Drawing& drawing);

}  // namespace verbatim::fabric::drawing
