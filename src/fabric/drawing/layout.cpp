#include "fabric/drawing/layout.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace verbatim::fabric::drawing {
namespace {

constexpr double kMargin = 40;
constexpr double kTitleHeight = 40;
constexpr double kLegendHeight = 70;
constexpr double kSwitchPitch = 78;
constexpr double kGridPitch = 120;
constexpr std::size_t kCircleMax = 16;  // Switches; more stand in a grid.
constexpr std::size_t kLabelMax = 24;

/// The widest box of the nodes.
double widest(const Drawing& drawing, const std::vector<std::uint32_t>& nodes) {
  double width = 0;
  for (const std::uint32_t node : nodes) {
    width = std::max(width, box_of(drawing.nodes[node], false).width);
  }
  return width;
}

/// How far the longest name of a host reaches from its circle; 0: they are boxes. In rows names are
/// turned by 45 degrees.
double reach_of_names(const Drawing& drawing, const Layout& layout) {
  if (layout.is_folded) return 0;
  const double length = widest(drawing, of_kind(drawing, Kind::host));
  return layout.form == Form::circle ? length : length * 0.75;
}

}  // namespace

std::string label_of(const Node& node) {
  std::string_view name = node.name;
  const std::size_t begin = name.find(';');
  const std::size_t end = name.find(':');
  if (node.kind == Kind::switch_node && begin < end && end != name.npos && end > begin + 1) {
    name = name.substr(begin + 1, end - begin - 1);
  }
  if (name.size() <= kLabelMax) return std::string(name);
  return std::string(name.substr(0, kLabelMax - 2)) + "..";
}

bool is_folded(const Drawing& drawing) {
  return std::ranges::any_of(drawing.nodes, [](const Node& node) { return node.count > 1; });
}

double width_of(std::string_view text) { return static_cast<double>(text.size()) * 7 + 14; }

Box box_of(const Node& node, bool is_turned) {
  const double width = width_of(label_of(node));
  const double height = node.kind == Kind::host ? 20 : 24;
  return is_turned ? Box{height, width} : Box{width, height};
}

std::vector<std::uint32_t> of_kind(const Drawing& drawing, Kind kind) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < drawing.nodes.size(); ++i) {
    if (drawing.nodes[i].kind == kind) found.push_back(i);
  }
  return found;
}

namespace {

/// Each cable counts. Where all switches have hosts, none is raised.
void raise_spines(const Drawing& drawing, const Neighbors& neighbors,
                  std::vector<unsigned>& ranks) {
  const auto switches = of_kind(drawing, Kind::switch_node);
  std::vector<std::size_t> hosts(drawing.nodes.size());
  for (const std::uint32_t node : switches) {
    for (const std::uint32_t next : neighbors[node]) {
      if (ranks[next] == 0) hosts[node] += drawing.nodes[next].count;
    }
  }
  const auto is_of_hosts = [&](std::uint32_t node) { return ranks[node] == 1; };
  if (std::ranges::all_of(switches, is_of_hosts) || switches.empty()) return;
  const std::vector<unsigned> before = ranks;
  for (const std::uint32_t node : switches) {
    std::size_t cables = 0;
    std::size_t to_leaves = 0;
    for (const std::uint32_t next : neighbors[node]) {
      if (before[next] == 0) continue;
      ++cables;
      to_leaves += before[next] == 1 && hosts[next] > 2 * hosts[node] ? 1 : 0;
    }
    if (before[node] == 1 && cables > 2 * hosts[node] && 2 * to_leaves > cables) ranks[node] = 2;
  }
}

}  // namespace

std::vector<unsigned> ranks_of(const Drawing& drawing, const Neighbors& neighbors) {
  std::vector<std::uint32_t> queue = of_kind(drawing, Kind::host);
  std::vector<unsigned> ranks(drawing.nodes.size(), 1);
  std::vector<bool> known(drawing.nodes.size());
  for (const std::uint32_t host : queue) {
    ranks[host] = 0;
    known[host] = true;
  }
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const std::uint32_t next : neighbors[queue[i]]) {
      if (known[next] || drawing.nodes[next].kind == Kind::router) continue;
      known[next] = true;
      ranks[next] = ranks[queue[i]] + 1;
      queue.push_back(next);
    }
  }
  raise_spines(drawing, neighbors, ranks);
  const unsigned top = ranks.empty() ? 0 : std::ranges::max(ranks) + 1;
  for (const std::uint32_t router : of_kind(drawing, Kind::router)) ranks[router] = top;
  return ranks;
}

Neighbors hosts_by_switch(const Drawing& drawing, const Neighbors& neighbors) {
  Neighbors hosts(drawing.nodes.size());
  for (const std::uint32_t host : of_kind(drawing, Kind::host)) {
    if (!neighbors[host].empty()) hosts[neighbors[host].front()].push_back(host);
  }
  return hosts;
}

namespace {

Layout in_circle(const Drawing& drawing, const Neighbors& neighbors) {
  const auto switches = of_kind(drawing, Kind::switch_node);
  const auto hosts = hosts_by_switch(drawing, neighbors);
  const auto count = static_cast<double>(switches.size());
  const auto host_count = static_cast<double>(of_kind(drawing, Kind::host).size());
  constexpr double kTurn = 2 * std::numbers::pi;
  const double pitch = std::max(kSwitchPitch, widest(drawing, switches) + kGap);
  const double radius =
      std::max({140.0, count * pitch / kTurn, host_count * 26 / kTurn - kHostDistance});
  const double outer = radius + kHostDistance;
  Layout layout{.form = Form::circle, .places = std::vector<Point>(drawing.nodes.size())};
  const auto at = [&](double angle, double distance) {
    return Point{outer + distance * std::sin(angle), outer - distance * std::cos(angle)};
  };
  for (std::size_t i = 0; i < switches.size(); ++i) {
    const double angle = static_cast<double>(i) / count * kTurn;
    layout.places[switches[i]] = at(angle, radius);
    const auto& own = hosts[switches[i]];
    const double step = std::min(kTurn / count / (static_cast<double>(own.size()) + 0.3), 0.25);
    for (std::size_t h = 0; h < own.size(); ++h) {
      const double turn = (static_cast<double>(h) - static_cast<double>(own.size() - 1) / 2) * step;
      layout.places[own[h]] = at(angle + turn, outer);
    }
  }
  layout.width = layout.height = 2 * outer;
  layout.center = {outer, outer};
  return layout;
}

Layout in_grid(const Drawing& drawing, const Neighbors& neighbors) {
  const auto switches = of_kind(drawing, Kind::switch_node);
  const auto hosts = hosts_by_switch(drawing, neighbors);
  const auto columns = static_cast<std::size_t>(std::ceil(std::sqrt(switches.size())));
  Layout layout{.form = Form::grid, .places = std::vector<Point>(drawing.nodes.size())};
  const double pitch = std::max(kGridPitch, widest(drawing, switches) + 3 * kGap);
  for (std::size_t i = 0; i < switches.size(); ++i) {
    const std::size_t row = i / columns;
    const Point at{(static_cast<double>(i % columns) + 0.5) * pitch,
                   static_cast<double>(row) * kGridPitch};
    layout.places[switches[i]] = at;
    for (const std::uint32_t host : hosts[switches[i]]) {
      layout.places[host] = {at.x + 34, at.y + 34};
    }
  }
  layout.width = static_cast<double>(columns) * pitch;
  const std::size_t last_row = (switches.size() - 1) / columns;
  layout.height = static_cast<double>(last_row) * kGridPitch + 40;
  return layout;
}

}  // namespace

Neighbors neighbors_of(const Drawing& drawing) {
  Neighbors neighbors(drawing.nodes.size());
  for (const Link& link : drawing.links) {
    neighbors[link.a].push_back(link.b);
    neighbors[link.b].push_back(link.a);
  }
  return neighbors;
}

Form form_of(const Drawing& drawing) {
  const auto ranks = ranks_of(drawing, neighbors_of(drawing));
  const auto switches = of_kind(drawing, Kind::switch_node);
  const bool has_one_rank =
      std::ranges::all_of(switches, [&](std::uint32_t node) { return ranks[node] == 1; });
  const bool has_routers = !of_kind(drawing, Kind::router).empty();
  if (!has_one_rank || has_routers || switches.size() < 3) return Form::rows;
  return switches.size() <= kCircleMax ? Form::circle : Form::grid;
}

Layout layout_of(const Drawing& drawing) {
  Layout layout;
  if (drawing.nodes.empty()) return layout;
  const auto neighbors = neighbors_of(drawing);
  const Form form = form_of(drawing);
  layout = form == Form::rows     ? in_rows(drawing, neighbors)
           : form == Form::circle ? in_circle(drawing, neighbors)
                                  : in_grid(drawing, neighbors);
  layout.is_turned.resize(drawing.nodes.size());
  layout.is_folded = is_folded(drawing);
  const double reach = reach_of_names(drawing, layout);
  const bool is_circle = form == Form::circle;
  // In rows names go down to the right; around a circle outwards.
  const Point before{kMargin + (is_circle ? reach : 0),
                     kMargin + kTitleHeight + (is_circle ? reach : 0)};
  for (Point& place : layout.places) {
    place.x += before.x;
    place.y += before.y;
  }
  layout.center.x += before.x;
  layout.center.y += before.y;
  layout.width += before.x + kMargin + reach;
  layout.height += before.y + kMargin + kLegendHeight + reach;
  return layout;
}

}  // namespace verbatim::fabric::drawing
