#include "fabric/drawing/layout.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace verbatim::fabric::drawing {
namespace {

using Neighbors = std::vector<std::vector<std::uint32_t>>;

constexpr double kMargin = 70;
constexpr double kHostPitch = 30;  // Between hosts side by side, whose names are turned.
constexpr double kSwitchPitch = 78;
constexpr double kUpperPitch = 46;
constexpr double kRowHeight = 150;
constexpr double kHostDistance = 80;
constexpr std::size_t kCircleMax = 16;  // Switches; more stand in a grid.
constexpr double kGridPitch = 120;

std::vector<std::uint32_t> of_kind(const Drawing& drawing, Kind kind) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < drawing.nodes.size(); ++i) {
    if (drawing.nodes[i].kind == kind) found.push_back(i);
  }
  return found;
}

/// Each switch's distance from the nearest host; hosts have 0. Routers stand above all.
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
  const unsigned top = ranks.empty() ? 0 : std::ranges::max(ranks) + 1;
  for (const std::uint32_t router : of_kind(drawing, Kind::router)) ranks[router] = top;
  return ranks;
}

/// Hosts by the switch at which they are drawn.
std::vector<std::vector<std::uint32_t>> hosts_by_switch(const Drawing& drawing,
                                                        const Neighbors& neighbors) {
  std::vector<std::vector<std::uint32_t>> hosts(drawing.nodes.size());
  for (const std::uint32_t host : of_kind(drawing, Kind::host)) {
    if (!neighbors[host].empty()) hosts[neighbors[host].front()].push_back(host);
  }
  return hosts;
}

/// Orders a row by the middle of each node's neighbours in another one, so that few links cross.
void order_row(std::vector<std::uint32_t>& row, const std::vector<std::uint32_t>& other,
               const Neighbors& neighbors, std::vector<double>& middle) {
  std::vector<double> place(middle.size(), -1);
  for (std::size_t i = 0; i < other.size(); ++i) {
    place[other[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(other.size());
  }
  for (const std::uint32_t node : row) {
    double sum = 0;
    unsigned count = 0;
    for (const std::uint32_t next : neighbors[node]) {
      if (place[next] < 0) continue;
      sum += place[next];
      ++count;
    }
    if (count != 0) middle[node] = sum / count;
  }
  std::ranges::stable_sort(row, {}, [&](std::uint32_t node) { return middle[node]; });
}

double cell_of_leaf(std::size_t hosts) {
  return std::max(kSwitchPitch, (static_cast<double>(hosts) + 0.6) * kHostPitch);
}

double width_of_leaves(const std::vector<std::uint32_t>& leaves,
                       const std::vector<std::vector<std::uint32_t>>& hosts) {
  double width = 0;
  for (const std::uint32_t leaf : leaves) width += cell_of_leaf(hosts[leaf].size());
  return width;
}

/// Whether cables connect switches of the top row: then there is room for their curves.
bool has_links_in_top_row(const Drawing& drawing, const std::vector<unsigned>& ranks) {
  const unsigned top = std::ranges::max(ranks);
  return std::ranges::any_of(drawing.links, [&](const Link& link) {
    return ranks[link.a] == top && ranks[link.b] == top;
  });
}

Layout in_rows(const Drawing& drawing, const Neighbors& neighbors) {
  const auto ranks = ranks_of(drawing, neighbors);
  std::vector<std::vector<std::uint32_t>> rows(std::max(std::ranges::max(ranks), 1u) + 1);
  for (std::uint32_t i = 0; i < ranks.size(); ++i) rows[ranks[i]].push_back(i);
  std::vector<double> middle(drawing.nodes.size(), 0.5);
  for (unsigned sweep = 0; sweep < 4; ++sweep) {
    for (std::size_t r = 2; r < rows.size(); ++r)
      order_row(rows[r], rows[r - 1], neighbors, middle);
    for (std::size_t r = rows.size() - 1; r-- > 1;) {
      order_row(rows[r], rows[r + 1], neighbors, middle);
    }
  }
  Layout layout{.form = Form::rows, .places = std::vector<Point>(drawing.nodes.size())};
  const auto hosts = hosts_by_switch(drawing, neighbors);
  double width = 0;
  for (std::size_t r = 2; r < rows.size(); ++r) {
    width = std::max(width, static_cast<double>(rows[r].size()) * kUpperPitch);
  }
  const double leaves_width = width_of_leaves(rows[1], hosts);
  double left = std::max(0.0, (width - leaves_width) / 2);
  width = std::max(width, leaves_width);
  for (const std::uint32_t leaf : rows[1]) {
    const auto count = static_cast<double>(hosts[leaf].size());
    const double cell = cell_of_leaf(hosts[leaf].size());
    layout.places[leaf].x = left + cell / 2;
    for (std::size_t i = 0; i < hosts[leaf].size(); ++i) {
      layout.places[hosts[leaf][i]].x =
          layout.places[leaf].x + (static_cast<double>(i) - (count - 1) / 2) * kHostPitch;
    }
    left += cell;
  }
  for (std::size_t r = 2; r < rows.size(); ++r) {
    const double cell = width / static_cast<double>(rows[r].size());
    for (std::size_t i = 0; i < rows[r].size(); ++i) {
      layout.places[rows[r][i]].x = (static_cast<double>(i) + 0.5) * cell;
    }
  }
  // A wide drawing is taller, so that the angles of its links stay legible.
  const double row_height = std::max(kRowHeight, width / 10);
  const double bottom = static_cast<double>(rows.size() - 2) * row_height + kHostDistance;
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    layout.places[i].y =
        ranks[i] == 0 ? bottom : static_cast<double>(rows.size() - 1 - ranks[i]) * row_height;
  }
  layout.width = width;
  layout.height = bottom;
  if (!has_links_in_top_row(drawing, ranks)) return layout;
  for (Point& place : layout.places) place.y += kBendMax;
  layout.height += kBendMax;
  return layout;
}

Layout in_circle(const Drawing& drawing, const Neighbors& neighbors) {
  const auto switches = of_kind(drawing, Kind::switch_node);
  const auto hosts = hosts_by_switch(drawing, neighbors);
  const auto count = static_cast<double>(switches.size());
  const auto host_count = static_cast<double>(of_kind(drawing, Kind::host).size());
  constexpr double kTurn = 2 * std::numbers::pi;
  const double radius =
      std::max({140.0, count * kSwitchPitch / kTurn, host_count * 26 / kTurn - kHostDistance});
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
  return layout;
}

Layout in_grid(const Drawing& drawing, const Neighbors& neighbors) {
  const auto switches = of_kind(drawing, Kind::switch_node);
  const auto hosts = hosts_by_switch(drawing, neighbors);
  const auto columns = static_cast<std::size_t>(std::ceil(std::sqrt(switches.size())));
  Layout layout{.form = Form::grid, .places = std::vector<Point>(drawing.nodes.size())};
  for (std::size_t i = 0; i < switches.size(); ++i) {
    const std::size_t row = i / columns;
    const Point at{(static_cast<double>(i % columns) + 0.5) * kGridPitch,
                   static_cast<double>(row) * kGridPitch};
    layout.places[switches[i]] = at;
    for (const std::uint32_t host : hosts[switches[i]]) {
      layout.places[host] = {at.x + 34, at.y + 34};
    }
  }
  layout.width = static_cast<double>(columns) * kGridPitch;
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
  switch (form_of(drawing)) {
    case Form::rows:
      layout = in_rows(drawing, neighbors);
      break;
    case Form::circle:
      layout = in_circle(drawing, neighbors);
      break;
    case Form::grid:
      layout = in_grid(drawing, neighbors);
      break;
  }
  for (Point& place : layout.places) {
    place.x += kMargin;
    place.y += kMargin + 40;
  }
  layout.width += 2 * kMargin;
  layout.height += 2 * kMargin + 110;
  return layout;
}

}  // namespace verbatim::fabric::drawing
