// Trees: a row for each level of switches, hosts below.
#include <algorithm>
#include <cstddef>

#include "fabric/drawing/layout.h"

namespace verbatim::fabric::drawing {
namespace {

constexpr double kRowHeight = 150;
/// Longer rows have their boxes turned.
constexpr double kRowWidthMax = 2200;

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

class Rows {
 public:
  Rows(const Drawing& drawing, const Neighbors& neighbors)
      : drawing_(drawing),
        neighbors_(neighbors),
        ranks_(ranks_of(drawing, neighbors)),
        rows_(std::max(std::ranges::max(ranks_), 1u) + 1),
        hosts_(hosts_by_switch(drawing, neighbors)) {
    layout_.form = Form::rows;
    layout_.is_folded = is_folded(drawing);
    layout_.places.resize(drawing.nodes.size());
    layout_.is_turned.resize(drawing.nodes.size());
  }

  Layout make() {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) rows_[ranks_[i]].push_back(i);
    order();
    for (std::size_t r = 1; r < rows_.size(); ++r) turn_if_long(r);
    for (std::size_t r = 1; r < rows_.size(); ++r) {
      layout_.width = std::max(layout_.width, width_of_row(r));
    }
    for (std::size_t r = 1; r < rows_.size(); ++r) place_in_row(r);
    place_heights();
    return std::move(layout_);
  }

 private:
  void order() {
    std::vector<double> middle(drawing_.nodes.size(), 0.5);
    for (unsigned sweep = 0; sweep < 4; ++sweep) {
      for (std::size_t r = 2; r < rows_.size(); ++r) {
        order_row(rows_[r], rows_[r - 1], neighbors_, middle);
      }
      for (std::size_t r = rows_.size() - 1; r-- > 1;) {
        order_row(rows_[r], rows_[r + 1], neighbors_, middle);
      }
    }
  }

  void turn_if_long(std::size_t row) {
    if (width_of_row(row) <= kRowWidthMax) return;
    for (const std::uint32_t node : rows_[row]) {
      layout_.is_turned[node] = true;
      if (!layout_.is_folded) continue;
      for (const std::uint32_t host : hosts_[node]) layout_.is_turned[host] = true;
    }
  }

  Box box(std::uint32_t node) const {
    if (drawing_.nodes[node].kind == Kind::host && !layout_.is_folded) return {kHostPitch, 12};
    return box_of(drawing_.nodes[node], layout_.is_turned[node]);
  }
  double width_of_hosts(std::uint32_t node) const {
    double width = 0;
    for (const std::uint32_t host : hosts_[node]) width += box(host).width;
    return width;
  }
  /// The room of a switch with its hosts.
  double cell(std::uint32_t node) const {
    return std::max(box(node).width, width_of_hosts(node)) + kGap;
  }
  double width_of_row(std::size_t row) const {
    double width = 0;
    for (const std::uint32_t node : rows_[row]) width += cell(node);
    return width;
  }

  /// What is left of the drawing's width lies between the cells.
  void place_in_row(std::size_t row) {
    const auto count = static_cast<double>(rows_[row].size());
    const double spare = (layout_.width - width_of_row(row)) / std::max(count, 1.0);
    double left = 0;
    for (const std::uint32_t node : rows_[row]) {
      const double width = cell(node) + spare;
      layout_.places[node].x = left + width / 2;
      double next = layout_.places[node].x - width_of_hosts(node) / 2;
      for (const std::uint32_t host : hosts_[node]) {
        layout_.places[host].x = next + box(host).width / 2;
        next += box(host).width;
      }
      left += width;
    }
  }

  double height_of_row(std::size_t row) const {
    double height = 0;
    for (const std::uint32_t node : rows_[row]) height = std::max(height, box(node).height);
    return height;
  }
  double height_of_hosts(std::size_t row) const {
    double height = 0;
    for (const std::uint32_t node : rows_[row]) {
      for (const std::uint32_t host : hosts_[node]) height = std::max(height, box(host).height);
    }
    return height;
  }
  /// Whether cables connect switches of the row: then there is room for their curves.
  bool has_links_within(std::size_t row) const {
    return std::ranges::any_of(drawing_.links, [&](const Link& link) {
      return ranks_[link.a] == row && ranks_[link.b] == row;
    });
  }

  /// From the top. A wide drawing is taller, so that the angles of its links stay legible. Hosts of
  /// a leaf are below it, those of other switches above.
  void place_heights() {
    const double space = std::max(kRowHeight, layout_.width / 10);
    double y = 0;
    for (std::size_t r = rows_.size() - 1; r >= 1; --r) {
      const bool is_top = r == rows_.size() - 1;
      if (is_top && has_links_within(r)) y += kBendMax;
      const double hosts = height_of_hosts(r);
      const double above = r > 1 && hosts != 0 ? kHostDistance : 0;
      y += (is_top ? 0 : space) + height_of_row(r) / 2 + above;
      const double from = height_of_row(r) / 2 + hosts / 2 + kHostDistance - 20;
      for (const std::uint32_t node : rows_[r]) {
        layout_.places[node].y = y;
        for (const std::uint32_t host : hosts_[node]) {
          layout_.places[host].y = r == 1 ? y + from : y - from + 20;
        }
      }
      y += height_of_row(r) / 2;
    }
    layout_.height = y + kHostDistance + height_of_hosts(1);
    for (const std::uint32_t node : rows_[0]) {  // Without a cable.
      if (neighbors_[node].empty()) layout_.places[node].y = layout_.height;
    }
  }

  const Drawing& drawing_;
  const Neighbors& neighbors_;
  const std::vector<unsigned> ranks_;
  std::vector<std::vector<std::uint32_t>> rows_;
  const Neighbors hosts_;
  Layout layout_;
};

}  // namespace

Layout in_rows(const Drawing& drawing, const Neighbors& neighbors) {
  return Rows(drawing, neighbors).make();
}

}  // namespace verbatim::fabric::drawing
