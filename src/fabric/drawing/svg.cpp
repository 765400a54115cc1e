#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <string_view>

#include <fmt/format.h>

#include "fabric/drawing/layout.h"

namespace verbatim::fabric::drawing {
namespace {

struct HealthFacts {
  std::string_view word;
  std::string_view color;
  std::string_view dashes;
};
/// In the order of `Health`. The colours are told apart by people who are colour-blind, too.
constexpr std::array<HealthFacts, kHealths> kHealthFacts{{
    {"active", "#0072b2", "none"},
    {"waits for a subnet manager", "#999999", "6 4"},
    {"degraded", "#e69f00", "none"},
    {"has bit errors", "#cc79a7", "none"},
    {"down", "#d62728", "2 5"},
}};

constexpr std::string_view kStyle =
    "text{font-family:'DejaVu Sans',Verdana,sans-serif;font-size:12px;fill:#222}"
    ".title{font-size:18px;font-weight:bold}.note{fill:#666}"
    ".switch rect{fill:#2b3a4a}.switch text{fill:#fff;text-anchor:middle}"
    ".router rect{fill:#6a4c93}.router text{fill:#fff;text-anchor:middle}"
    ".host circle,.hosts rect{fill:#fff;stroke:#2b3a4a;stroke-width:1.5}"
    ".hosts text{text-anchor:middle;font-size:11px}"
    ".link path{fill:none;stroke-linecap:butt}";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

class Writer {
 public:
  Writer(const Drawing& drawing, const Layout& layout) : drawing_(drawing), layout_(layout) {
    is_dense_ = drawing.links.size() > 120;
    for (const Link& link : drawing.links) ++parallel_[ends_of(link)].count;
  }

  std::string document() {
    const double width = std::max(layout_.width, 760.0);
    out_ += fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\">\n<style>{2}</style>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        "<text class=\"title\" x=\"24\" y=\"34\">{3}</text>\n",
        width, layout_.height, kStyle, escaped(drawing_.title));
    shift_ = (width - layout_.width) / 2;
    for (const Link& link : drawing_.links) add(link);
    for (std::size_t i = 0; i < drawing_.nodes.size(); ++i) {
      add(drawing_.nodes[i], {layout_.places[i].x + shift_, layout_.places[i].y},
          layout_.is_turned[i]);
    }
    add_legend();
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  using Ends = std::pair<std::uint32_t, std::uint32_t>;
  struct Parallel {
    unsigned count = 0;
    unsigned drawn = 0;
  };
  static Ends ends_of(const Link& link) { return std::minmax(link.a, link.b); }

  /// Of an idle link, and of a full one.
  double stroke_of(double load) const {
    const double thin = is_dense_ ? 0.9 : 1.6;
    return thin + std::clamp(load, 0.0, 1.0) * 6;
  }

  /// How far the middle of a link is beside the straight line: of parallel cables, and of those
  /// that would pass through other switches.
  double bend_of(const Link& link, Point a, Point b) {
    Parallel& parallel = parallel_[ends_of(link)];
    const double side = parallel.drawn++ - (parallel.count - 1) / 2.0;
    double bend = side * 12;
    const bool is_row = std::abs(a.y - b.y) < 1;
    const double length = std::hypot(a.x - b.x, a.y - b.y);
    if (layout_.form == Form::grid && length > 130) bend += 26 + length / 30;
    if (layout_.form == Form::rows && is_row) bend += std::min(20 + length / 10, kBendMax - 20);
    return bend;
  }

  /// Where a link to `other` begins: at the middle of a node, or between rows at the edge of its
  /// box.
  Point end_of(std::uint32_t node, Point other) const {
    Point end{layout_.places[node].x + shift_, layout_.places[node].y};
    const double half = box_of(drawing_.nodes[node], layout_.is_turned[node]).height / 2;
    if (layout_.form != Form::rows || std::abs(end.y - other.y) < 3 * half) return end;
    end.y += end.y < other.y ? half : -half;
    return end;
  }

  void add(const Link& link) {
    const auto [a, b] = ends_of(link);
    const Point from = end_of(a, layout_.places[b]);
    const Point to = end_of(b, layout_.places[a]);
    const double bend = bend_of(link, from, to);
    const double length = std::max(std::hypot(to.x - from.x, to.y - from.y), 1.0);
    // The control point lies twice as far beside the line as the curve's middle.
    const Point control{(from.x + to.x) / 2 + 2 * bend * (to.y - from.y) / length,
                        (from.y + to.y) / 2 - 2 * bend * (to.x - from.x) / length};
    const HealthFacts& facts = kHealthFacts[static_cast<std::size_t>(link.health)];
    out_ += fmt::format(
        "<g class=\"link\"><title>{}</title><path d=\"M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}\" "
        "stroke=\"{}\" stroke-width=\"{:.1f}\" stroke-dasharray=\"{}\" opacity=\"{}\"/></g>\n",
        escaped(link.detail), from.x, from.y, control.x, control.y, to.x, to.y, facts.color,
        stroke_of(link.load), facts.dashes,
        is_dense_ && link.health == Health::active ? 0.4 + 0.5 * link.load : 0.9);
  }

  void add(const Node& node, Point at, bool is_turned) {
    const std::string name = escaped(label_of(node));
    out_ += fmt::format("<g class=\"{}\"><title>{}</title>", class_of(node), escaped(node.detail));
    if (node.kind == Kind::host && !layout_.is_folded) {
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\"/>{}", at.x, at.y,
                          host_label(name, at));
    } else {
      const auto [width, height] = box_of(node, is_turned);
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"5\"/>"
          "<text transform=\"translate({:.1f} {:.1f})rotate({})\" y=\"4\">{}</text>",
          at.x - width / 2, at.y - height / 2, width, height, at.x, at.y, is_turned ? -90 : 0,
          name);
    }
    out_ += "</g>\n";
  }

  std::string_view class_of(const Node& node) const {
    if (node.kind == Kind::switch_node) return "switch";
    if (node.kind == Kind::router) return "router";
    return layout_.is_folded ? "hosts" : "host";
  }

  /// Turned, so that names of neighbours do not overlap: down in rows, outwards in a circle.
  std::string host_label(const std::string& name, Point at) const {
    double angle = 45;
    if (layout_.form == Form::circle) {
      angle = std::atan2(at.y - layout_.center.y, at.x - shift_ - layout_.center.x) * 180 /
              std::numbers::pi;
    }
    const bool is_turned = std::abs(angle) > 90;
    return fmt::format(
        "<text transform=\"translate({:.1f} {:.1f})rotate({:.1f})\" x=\"{}\" y=\"4\" "
        "text-anchor=\"{}\">{}</text>",
        at.x, at.y, is_turned ? angle + 180 : angle, is_turned ? -11 : 11,
        is_turned ? "end" : "start", name);
  }

  void add_legend() {
    const double y = layout_.height - 42;
    double x = 28;
    for (const HealthFacts& facts : kHealthFacts) {
      line(x, y, facts.color, 2.5, facts.dashes);
      x = words(x + 38, y, facts.word);
    }
    x = words(28, y + 24, "load:");
    for (const unsigned percent : {0u, 50u, 100u}) {
      line(x, y + 24, kHealthFacts[0].color, stroke_of(percent / 100.0), "none");
      x = words(x + 38, y + 24, fmt::format("{} %", percent));
    }
  }
  void line(double x, double y, std::string_view color, double stroke, std::string_view dashes) {
    out_ += fmt::format(
        "<path d=\"M{:.1f} {:.1f}h30\" stroke=\"{}\" stroke-width=\"{:.1f}\" "
        "stroke-dasharray=\"{}\"/>\n",
        x, y, color, stroke, dashes);
  }
  /// Returns where the next ones begin.
  double words(double x, double y, std::string_view text) {
    out_ +=
        fmt::format("<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y + 4, text);
    return x + width_of(text) + 10;
  }

  const Drawing& drawing_;
  const Layout& layout_;
  bool is_dense_ = false;
  double shift_ = 0;  // A narrow drawing stands in the middle.
  std::map<Ends, Parallel> parallel_;
  std::string out_;
};

}  // namespace

std::string svg_of(const Drawing& drawing) {
  const Drawing shown = folded(drawing);
  const Layout layout = layout_of(shown);
  return Writer(shown, layout).document();
}

}  // namespace verbatim::fabric::drawing
