#pragma once

#include <string>
#include <string_view>
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

/// What is written at a node: of a switch that is named as "MF0;leaf1:MQM8700/U1" the part that
/// differs, of long names the beginning.
std::string label_of(const Node& node);
/// The room for a text of the drawing.
double width_of(std::string_view text);

/// A box with the node's label, or what stands in its place.
struct Box {
  double width = 0;
  double height = 0;
};
Box box_of(const Node& node, bool is_turned);

/// Where nodes are. Boxes do not overlap.
struct Layout {
  Form form{};
  std::vector<Point> places;    // As `Drawing::nodes`; of a box its middle.
  std::vector<bool> is_turned;  // Boxes of long rows, so that these stay narrow.
  bool is_folded = false;       // Hosts are boxes, not circles beside which their names stand.
  Point center;                 // Of a circle.
  double width = 0;
  double height = 0;
};

Form form_of(const Drawing& drawing);
/// Hosts of a switch are one node (drawing.h).
bool is_folded(const Drawing& drawing);
Layout layout_of(const Drawing& drawing);

using Neighbors = std::vector<std::vector<std::uint32_t>>;
/// Places of each node's neighbours in `Drawing::nodes`.
Neighbors neighbors_of(const Drawing& drawing);

std::vector<std::uint32_t> of_kind(const Drawing& drawing, Kind kind);
/// Hosts by the switch at which they are drawn.
Neighbors hosts_by_switch(const Drawing& drawing, const Neighbors& neighbors);
/// Each switch's distance from the nearest host; hosts have 0. Routers stand above all, and so does
/// a switch of few hosts above those of many that it connects.
std::vector<unsigned> ranks_of(const Drawing& drawing, const Neighbors& neighbors);

// rows.cpp
Layout in_rows(const Drawing& drawing, const Neighbors& neighbors);

inline constexpr double kHostPitch = 30;  // Between hosts side by side, whose names are turned.
inline constexpr double kHostDistance = 80;
inline constexpr double kGap = 12;  // Between boxes.

}  // namespace verbatim::fabric::drawing
